/** Cutting patches from a Gaussian pyramid (doap_tf/features/pyramid_levels.py, cutting.py). */

import { blur, decimate, type Grey, pad, repeated, rounded } from "./grey";
import type { Keypoint } from "./keypoints";

const BLUR = 0.6; // σ assumed in the image
const MARGIN = 16; // pixels of repeated border on every grid
const GRID_BLUR = 1.5; // σ in pixels of its grid below which a level is not decimated

function levelSigma(level: number): number {
  return BLUR * Math.sqrt(2 ** level - 1);
}

function longestStep(level: number): number {
  return 2 ** ((level + 1e-6) / 2);
}

function halvings(level: number): number {
  return Math.max(0, Math.floor(Math.log2(BLUR / GRID_BLUR) + level / 2));
}

function addedSigma(level: number): number {
  return Math.sqrt(levelSigma(level) ** 2 - levelSigma(level - 1) ** 2) / 2 ** halvings(level - 1);
}

/** Smoothed copies of one image, computed when first needed; whole grey values, as in Python. */
export class Pyramid {
  private readonly levels: Grey[];
  private smoothest: Grey;
  private readonly last: number;

  constructor(image: Grey) {
    this.smoothest = pad(image, MARGIN);
    this.levels = [this.smoothest];
    this.last = 2 * Math.ceil(Math.log2(Math.max(image.width, image.height))) + 6;
  }

  /**
   * Cuts the square [−magnification, magnification]² of a keypoint into `patch`, of size² pixels.
   *
   * The square's edges are edges, not centres, of the patch's pixels.
   */
  cut(keypoint: Keypoint, size: number, magnification: number, patch: Float32Array): void {
    const step = (keypoint.radius * 2 * magnification) / size;
    let number = 0;
    while (number < this.last && step > longestStep(number)) number++;
    const { width, height, pixels } = this.level(number);
    const scale = 2 ** -halvings(number);
    const cosine = step * scale * Math.cos(keypoint.angle);
    const sine = step * scale * Math.sin(keypoint.angle);
    const middle = (size - 1) / 2;
    for (let row = 0, i = 0; row < size; row++) {
      for (let column = 0; column < size; column++, i++) {
        const right = column - middle;
        const down = row - middle;
        const x = clip(keypoint.x * scale + MARGIN + cosine * right - sine * down, width);
        const y = clip(keypoint.y * scale + MARGIN + sine * right + cosine * down, height);
        const left = Math.floor(x);
        const above = Math.floor(y);
        const across = x - left;
        const start = above * width + left;
        const next = left + 1 < width ? 1 : 0;
        const below = above + 1 < height ? width : 0;
        const top = pixels[start] + (pixels[start + next] - pixels[start]) * across;
        const bottom = pixels[start + below] + (pixels[start + below + next] - pixels[start + below]) * across;
        patch[i] = Math.round(top + (bottom - top) * (y - above));
      }
    }
  }

  private level(number: number): Grey {
    while (this.levels.length <= number) {
      const k = this.levels.length;
      const smoothed = blur(this.smoothest, addedSigma(k), repeated);
      this.smoothest = halvings(k) > halvings(k - 1) ? pad(decimate(smoothed), MARGIN / 2) : smoothed;
      this.levels.push(rounded(this.smoothest));
    }
    return this.levels[number];
  }
}

function clip(place: number, length: number): number {
  return Math.min(Math.max(place, 0), length - 1);
}
