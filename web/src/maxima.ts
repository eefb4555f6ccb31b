/** Keypoints as maxima of a network's scores (doap_tf/features/score_maxima.py). */

import { blur, type Grey, mirrored } from "./grey";

// doap_tf/features/keypoint_maxima.py
const SMOOTHING = 1.3;
const RADIUS = 2;
const BORDER = 4;
const TEXTURE = 11;

export interface Maximum {
  x: number;
  y: number;
  score: number;
}

/** Finds keypoints in an image by the scores of its pixels, row by row. */
export function scoreMaxima(image: Grey, scores: Grey, threshold = -Infinity): Maximum[] {
  const found = [...maxima(blur(scores, SMOOTHING, mirrored), threshold)];
  // Where there is nothing to see, scores only repeat the blocks of the network.
  return found.filter(({ x, y }) => isTextured(image, Math.round(x), Math.round(y)));
}

/** Places above the threshold that exceed all neighbours, refined by a paraboloid. */
function* maxima({ width, height, pixels }: Grey, threshold: number): Generator<Maximum> {
  for (let row = BORDER; row < height - BORDER; row++) {
    for (let column = BORDER; column < width - BORDER; column++) {
      const i = row * width + column;
      const score = pixels[i];
      if (!(score > threshold) || !isMaximum(pixels, i, width)) continue;
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
