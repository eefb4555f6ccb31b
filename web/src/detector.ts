/** Keypoints: maxima of a network's scores over an image pyramid (doap_tf/features/learned.py). */

import { blur, type Grey, mirrored, newGrey, resize, rounded } from "./grey";
import type { Keypoint } from "./keypoints";
import type { DetectorEntry } from "./manifest";
import type { Network } from "./network";

// doap_tf/features/keypoint_maxima.py
const STEP = Math.SQRT2;
const SMALLEST_SIDE = 32;
const SMOOTHING = 1.3;
const RADIUS = 2;
const BORDER = 4;
const TEXTURE = 11;
const THRESHOLD = 0;
const BLUR = 0.6;

/** Finds keypoints, the strongest first. */
export async function detect(image: Grey, network: Network, entry: DetectorEntry): Promise<Keypoint[]> {
  const found: Keypoint[] = [];
  let radius = entry.radius;
  for (const level of pyramid(image)) {
    const scores = blur(await scoresOf(level, network, entry), SMOOTHING, mirrored);
    for (const { x, y, score } of maxima(scores)) {
      // Where there is nothing to see, scores only repeat the blocks of the network.
      if (!isTextured(level, Math.round(x), Math.round(y))) continue;
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

/** Scores every pixel in tiles that overlap so far that seams are not seen. */
async function scoresOf(image: Grey, network: Network, entry: DetectorEntry): Promise<Grey> {
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
        for (let x = 0; x < tile; x++) input[y * tile + x] = image.pixels[start + columns[x]];
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

/** Places above the threshold that exceed all neighbours, refined by a paraboloid. */
function* maxima({ width, height, pixels }: Grey) {
  for (let row = BORDER; row < height - BORDER; row++) {
    for (let column = BORDER; column < width - BORDER; column++) {
      const i = row * width + column;
      const score = pixels[i];
      if (!(score > THRESHOLD) || !isMaximum(pixels, i, width)) continue;
      const dx = (pixels[i + 1] - pixels[i - 1]) / 2;
      const dy = (pixels[i + width] - pixels[i - width]) / 2;
      const dxx = pixels[i - 1] + pixels[i + 1] - 2 * score;
      const dyy = pixels[i - width] + pixels[i + width] - 2 * score;
      const dxy =
        (pixels[i - width - 1] - pixels[i - width + 1] - pixels[i + width - 1] + pixels[i + width + 1]) / 4;
      const determinant = Math.max(dxx * dyy - dxy ** 2, 1e-6);
      const right = (dxy * dy - dyy * dx) / determinant;
      const down = (dxy * dx - dxx * dy) / determinant;
      yield { x: column + clip(right), y: row + clip(down), score };
    }
  }
}

function isMaximum(pixels: Float32Array, i: number, width: number): boolean {
  for (let down = -RADIUS; down <= RADIUS; down++) {
    for (let right = -RADIUS; right <= RADIUS; right++) {
      const other = i + down * width + right;
      if (other !== i && pixels[other] >= pixels[i]) return false;
    }
  }
  return true;
}

function clip(offset: number): number {
  return Math.min(Math.max(offset, -0.5), 0.5);
}

function isTextured(image: Grey, x: number, y: number): boolean {
  const half = TEXTURE >> 1;
  const here = image.pixels[y * image.width + x];
  for (let row = Math.max(0, y - half); row <= Math.min(image.height - 1, y + half); row++) {
    for (let column = Math.max(0, x - half); column <= Math.min(image.width - 1, x + half); column++) {
      if (image.pixels[row * image.width + column] !== here) return true;
    }
  }
  return false;
}
