/** The dominant direction of the gradient around a keypoint (doap_tf/features/graph/orientation.py). */

import type { Pyramid } from "./cutting";
import type { Keypoint } from "./keypoints";

const BINS = 36;
const SAMPLES = 3; // patch pixels per radius
const DERIVATIVE_SIGMA = 0.7; // in radii
const WINDOW_SIGMA = 1.5; // in radii
const CUT_OFF = 2.5; // of the window, in its σ

const HALF = Math.round(CUT_OFF * WINDOW_SIGMA * SAMPLES);
const REACH = Math.ceil(3 * DERIVATIVE_SIGMA * SAMPLES);
const SIDE = 2 * HALF + 1;
const SIZE = 2 * (HALF + REACH) + 1;

const offsets = Float64Array.from({ length: 2 * REACH + 1 }, (_, i) => (i - REACH) / (DERIVATIVE_SIGMA * SAMPLES));
const gaussian = offsets.map((offset) => Math.exp(-(offset ** 2) / 2));
const total = gaussian.reduce((sum, value) => sum + value);
const SMOOTH = gaussian.map((value) => value / total);
const DIFFERENTIATE = SMOOTH.map((value, i) => (value * offsets[i]) / DERIVATIVE_SIGMA);
const WINDOW = Float64Array.from({ length: SIDE }, (_, i) =>
  Math.exp(-(((i - HALF) / (WINDOW_SIGMA * SAMPLES)) ** 2) / 2),
);

const patch = new Float32Array(SIZE * SIZE);
const half = new Float64Array(SIZE * SIDE);
const along = new Float64Array(SIDE * SIDE);
const across = new Float64Array(SIDE * SIDE);

/** The angle of an upright keypoint. */
export function dominantAngle(pyramid: Pyramid, keypoint: Keypoint): number {
  pyramid.cut({ ...keypoint, angle: 0 }, SIZE, SIZE / (2 * SAMPLES), patch);
  correlate(DIFFERENTIATE, SMOOTH, along);
  correlate(SMOOTH, DIFFERENTIATE, across);
  let histogram = new Float64Array(BINS);
  for (let y = 0, i = 0; y < SIDE; y++) {
    for (let x = 0; x < SIDE; x++, i++) {
      const weight = Math.sqrt(along[i] ** 2 + across[i] ** 2) * WINDOW[x] * WINDOW[y];
      const position = (Math.atan2(across[i], along[i]) * BINS) / (2 * Math.PI);
      const lower = Math.floor(position);
      histogram[bin(lower)] += weight * (lower + 1 - position);
      histogram[bin(lower + 1)] += weight * (position - lower);
    }
  }
  for (let pass = 0; pass < 2; pass++) {
    const before = histogram;
    histogram = before.map(
      (here, i) =>
        (6 * here + 4 * (before[bin(i - 1)] + before[bin(i + 1)]) + before[bin(i - 2)] + before[bin(i + 2)]) / 16,
    );
  }
  const peak = histogram.indexOf(Math.max(...histogram));
  const [left, here, right] = [bin(peak - 1), peak, bin(peak + 1)].map((i) => histogram[i]);
  const curvature = Math.max(2 * here - left - right, 1e-12);
  return ((peak + (right - left) / (2 * curvature)) * 2 * Math.PI) / BINS;
}

function bin(number: number): number {
  return (number + 2 * BINS) % BINS;
}

/** Correlates the patch with a kernel along rows and another along columns. */
function correlate(rows: Float64Array, columns: Float64Array, result: Float64Array): void {
  for (let y = 0; y < SIZE; y++) {
    for (let x = 0; x < SIDE; x++) {
      let sum = 0;
      for (let i = 0; i < rows.length; i++) sum += rows[i] * patch[y * SIZE + x + i];
      half[y * SIDE + x] = sum;
    }
  }
  for (let y = 0; y < SIDE; y++) {
    for (let x = 0; x < SIDE; x++) {
      let sum = 0;
      for (let i = 0; i < columns.length; i++) sum += columns[i] * half[(y + i) * SIDE + x];
      result[y * SIDE + x] = sum;
    }
  }
}
