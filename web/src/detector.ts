/** Keypoints: maxima of a network's scores over an image pyramid (doap_tf/features/learned.py). */

import { blur, type Grey, mirrored, newGrey, resize, rounded } from "./grey";
import type { Keypoint } from "./keypoints";
import type { DetectorEntry } from "./manifest";
import { scoreMaxima } from "./maxima";
import type { Network } from "./network";

// doap_tf/features/keypoint_maxima.py
const STEP = Math.SQRT2;
const SMALLEST_SIDE = 32;
const THRESHOLD = -2;
const MEAN = 128;
const DEVIATION = 80;
const LEAST_DEVIATION = 10;
const BLUR = 0.6;

/** Finds keypoints, the strongest first. */
export async function detect(image: Grey, network: Network, entry: DetectorEntry): Promise<Keypoint[]> {
  const found: Keypoint[] = [];
  const contrast = contrastOf(image);
  let radius = entry.radius;
  for (const level of pyramid(image)) {
    const scores = await scoresOf(level, contrast, network, entry);
    for (const { x, y, score } of scoreMaxima(level, scores, THRESHOLD)) {
      found.push({
        x: ((x + 0.5) * image.width) / level.width - 0.5,
        y: ((y + 0.5) * image.height) / level.height - 0.5,
        radius,
        angle: 0,
        score,
      });
    }
    radius *= STEP;
  }
  return found.sort((a, b) => b.score - a.score);
}

/** An image and smaller ones, all equally sharp if seen in their own pixels. */
function* pyramid(image: Grey): Generator<Grey> {
  let level = image;
  for (let number = 1; ; number++) {
    yield level;
    const width = Math.round(image.width / STEP ** number);
    const height = Math.round(image.height / STEP ** number);
    if (Math.min(width, height) < SMALLEST_SIDE) return;
    const smoothed = rounded(blur(level, BLUR * Math.sqrt(STEP ** 2 - 1), mirrored));
    level = rounded(resize(smoothed, width, height));
  }
}

/** What gives grey values the brightness and contrast that the network was trained with. */
interface Contrast {
  factor: number;
  offset: number;
}

function contrastOf({ pixels }: Grey): Contrast {
  let mean = 0;
  for (const value of pixels) mean += value / pixels.length;
  let variance = 0;
  for (const value of pixels) variance += (value - mean) ** 2 / pixels.length;
  const factor = DEVIATION / Math.max(Math.sqrt(variance), LEAST_DEVIATION);
  return { factor, offset: MEAN - factor * mean };
}

/** Scores every pixel in tiles that overlap so far that seams are not seen. */
async function scoresOf(
  image: Grey,
  { factor, offset }: Contrast,
  network: Network,
  entry: DetectorEntry,
): Promise<Grey> {
  const { stride, receptive_field: field } = entry;
  const [tile] = entry.image_size;
  const margin = stride * Math.ceil((field / stride - 1) / 2);
  const inner = tile - 2 * margin;
  const scores = newGrey(image.width, image.height);
  const input = new Float32Array(tile * tile);
  const columns = new Int32Array(tile);
  for (let top = 0; top < image.height; top += inner) {
    for (let left = 0; left < image.width; left += inner) {
      for (let i = 0; i < tile; i++) columns[i] = mirrored(left - margin + i, image.width);
      for (let y = 0; y < tile; y++) {
        const start = mirrored(top - margin + y, image.height) * image.width;
        for (let x = 0; x < tile; x++) input[y * tile + x] = factor * image.pixels[start + columns[x]] + offset;
      }
      const output = await network.run(input);
      const width = Math.min(inner, image.width - left);
      const height = Math.min(inner, image.height - top);
      for (let y = 0; y < height; y++) {
        const start = (y + margin) * tile + margin;
        scores.pixels.set(output.subarray(start, start + width), (top + y) * image.width + left);
      }
    }
  }
  return scores;
}
