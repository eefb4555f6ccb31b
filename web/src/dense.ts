/** Keypoints and descriptors of a network that reads the whole image (doap_tf/matching/dense_extractor.py). */

import { type Grey, newGrey, shrink, turnedLeft } from "./grey";
import type { Keypoint } from "./keypoints";
import type { DenseEntry } from "./manifest";
import { scoreMaxima } from "./maxima";
import type { Network } from "./network";

const RADIUS = 1.6; // of a keypoint's frame, in pixels of its level
const LEVELS = 4; // of the pyramid, each half the size of the one before
const SMALLER_LEVEL = 0.5; // weight of its maps, where those of the level itself have 1
const SMALLEST_SIDE = 64; // of a level, unless the image is smaller

interface FeatureMap {
  /** Cells that belong to the image, each way. */
  columns: number;
  rows: number;
  /** Cells of a row, with those beyond the image. */
  width: number;
  channels: number;
  stride: number;
  values: Float32Array;
}

/** A keypoint in pixels of a level, which it is described by. */
interface Place {
  x: number;
  y: number;
  maps: FeatureMap[];
  /** The same in the next smaller level. */
  smaller?: Place;
}

/** What a network reads in one image: keypoints, the strongest first, and their descriptors. */
export class DenseReading {
  private constructor(
    readonly keypoints: Keypoint[],
    private readonly places: Place[],
    private readonly network: Network,
    private readonly entry: DenseEntry,
  ) {}

  /** Reads an image turned to the left by quarters; keypoints are in pixels of the image as given. */
  static async of(image: Grey, network: Network, entry: DenseEntry, quarters = 0): Promise<DenseReading> {
    if (quarters) {
      const reading = await DenseReading.of(turnedLeft(image), network, entry, quarters - 1);
      for (const keypoint of reading.keypoints) {
        [keypoint.x, keypoint.y] = [image.width - 1 - keypoint.y, keypoint.x];
        keypoint.angle += Math.PI / 2;
      }
      return reading;
    }
    const found: (Place & { keypoint: Keypoint })[] = [];
    let larger = 0; // number of the first keypoint of the level before
    for (const level of pyramid(image, entry.image_size)) {
      const { scores, maps } = await read(level, network, entry);
      const [across, down] = [image.width / level.width, image.height / level.height];
      for (const place of found.slice(larger)) {
        const { x, y } = place.keypoint;
        place.smaller = { x: (x + 0.5) / across - 0.5, y: (y + 0.5) / down - 0.5, maps };
      }
      larger = found.length;
      for (const { x, y, score } of scoreMaxima(level, scores)) {
        const keypoint = {
          x: (x + 0.5) * across - 0.5,
          y: (y + 0.5) * down - 0.5,
          radius: (RADIUS * (across + down)) / 2,
          angle: 0,
          score,
        };
        found.push({ x, y, maps, keypoint });
      }
    }
    found.sort((a, b) => b.keypoint.score - a.keypoint.score);
    return new DenseReading(found.map(({ keypoint }) => keypoint), found, network, entry);
  }

  /** Packed bits of the keypoints of some numbers, row after row. */
  async describe(start: number, stop: number): Promise<Uint8Array> {
    const { rows, output_dim: bits } = this.entry;
    const places = this.places.slice(start, stop);
    const channels = this.places.length ? this.places[0].maps.reduce((sum, map) => sum + map.channels, 0) : 0;
    const result = new Uint8Array((places.length * bits) / 8);
    const sampled = new Float32Array(rows * channels);
    for (let first = 0; first < places.length; first += rows) {
      const part = places.slice(first, first + rows);
      part.forEach((place, i) => {
        const row = sampled.subarray(i * channels, (i + 1) * channels);
        sampleMaps(place, row);
        if (!place.smaller) return;
        const there = new Float32Array(channels);
        sampleMaps(place.smaller, there);
        there.forEach((value, k) => {
          row[k] = (row[k] + SMALLER_LEVEL * value) / (1 + SMALLER_LEVEL);
        });
      });
      const { descriptors } = await this.network.runSignature("describe", { sampled });
      result.set(descriptors.subarray(0, (part.length * bits) / 8), (first * bits) / 8);
    }
    return result;
  }
}

/** An image, within the largest size that fits it best, and smaller ones. */
function* pyramid(image: Grey, sizes: DenseEntry["image_size"]): Generator<Grey> {
  const ratio = Math.min(...sizes.map(([height, width]) => Math.max(1, image.width / width, image.height / height)));
  let level = image;
  for (let number = 0; number < LEVELS; number++) {
    const [width, height] = [image.width, image.height].map((side) =>
      Math.max(1, halfToEven(side / (ratio * 2 ** number))),
    );
    if (number && Math.min(width, height) < SMALLEST_SIDE) return;
    if (width !== level.width || height !== level.height) level = shrink(level, width, height);
    yield level;
  }
}

/** Scores and maps of an image, which is padded by its mean to the smallest size that holds it. */
async function read(image: Grey, network: Network, entry: DenseEntry): Promise<{ scores: Grey; maps: FeatureMap[] }> {
  const [height, width] = entry.image_size
    .filter(([height, width]) => height >= image.height && width >= image.width)
    .reduce((one, two) => (two[0] * two[1] < one[0] * one[1] ? two : one));
  const { mean, deviation } = statisticsOf(image);
  const images = new Float32Array(width * height).fill(mean);
  for (let y = 0; y < image.height; y++) images.set(rowOf(image.pixels, y, image.width, image.width), y * width);
  const statistics = Float32Array.of(mean, deviation);
  const outputs = await network.runSignature(`read_${height}x${width}`, { images, statistics });
  const scores = newGrey(image.width, image.height);
  for (let y = 0; y < image.height; y++) {
    scores.pixels.set(rowOf(outputs.scores as Float32Array, y, width, image.width), y * image.width);
  }
  const coarsest = Math.max(...entry.feature_strides);
  const maps = entry.feature_strides.map((stride) => {
    const values = outputs[`features${stride}`] as Float32Array;
    const cells = (side: number) => (Math.ceil(side / coarsest) * coarsest) / stride;
    return {
      columns: cells(image.width),
      rows: cells(image.height),
      width: width / stride,
      channels: values.length / ((width / stride) * (height / stride)),
      stride,
      values,
    };
  });
  return { scores, maps };
}

function rowOf(pixels: Float32Array, y: number, width: number, length: number): Float32Array {
  return pixels.subarray(y * width, y * width + length);
}

function statisticsOf({ pixels }: Grey): { mean: number; deviation: number } {
  const mean = pixels.reduce((sum, value) => sum + value, 0) / pixels.length;
  const variance = pixels.reduce((sum, value) => sum + (value - mean) ** 2, 0) / pixels.length;
  return { mean, deviation: Math.sqrt(variance) };
}

/** Values of all maps of a level at a place, side by side. */
function sampleMaps({ x, y, maps }: Place, to: Float32Array) {
  let offset = 0;
  for (const map of maps) {
    sample(map, x, y, to.subarray(offset, offset + map.channels));
    offset += map.channels;
  }
}

/** Bilinear values of a map at a pixel; beyond its outermost centres they are those of the border. */
function sample({ columns, rows, width, channels, stride, values }: FeatureMap, x: number, y: number, to: Float32Array) {
  const column = Math.min(Math.max((x + 0.5) / stride - 0.5, 0), columns - 1);
  const row = Math.min(Math.max((y + 0.5) / stride - 0.5, 0), rows - 1);
  const [left, above] = [Math.floor(column), Math.floor(row)];
  const [right, down] = [column - left, row - above];
  const start = (above * width + left) * channels;
  const next = left + 1 < columns ? channels : 0;
  const below = above + 1 < rows ? width * channels : 0;
  for (let i = 0, k = start; i < channels; i++, k++) {
    const top = values[k] + right * (values[k + next] - values[k]);
    const bottom = values[k + below] + right * (values[k + below + next] - values[k + below]);
    to[i] = top + down * (bottom - top);
  }
}

/** The nearest whole number, as NumPy rounds. */
function halfToEven(value: number): number {
  const below = Math.floor(value);
  return value - below === 0.5 ? below + (below % 2) : Math.round(value);
}
