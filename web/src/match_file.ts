/** Matches in the format of `match_main.py --output=x.json` (doap_tf/matching/match_files.py). */

import { GEOMETRIES, type GeometryName, type Point } from "./geometries";
import type { Keypoint } from "./keypoints";
import type { Manifest, PatchEntry } from "./manifest";
import { type Matrix3, multiply, transpose } from "./matrices";
import type { Photograph } from "./photographs";
import { type Matched, type Settings, THRESHOLD } from "./protocol";
import { isReliable } from "./verdict";

/** Everything in pixels of the files, although smaller pictures may have been matched. */
export function matchRecord(
  first: Photograph,
  second: Photograph,
  matched: Matched,
  settings: Settings,
  manifest: Manifest,
): object {
  const network = manifest.networks.find((entry) => entry.file === settings.network)!;
  const [scale1, scale2] = [first, second].map(scaleOf);
  const keypoints1 = matched.keypoints[0].map((keypoint) => row(keypoint, scale1));
  const keypoints2 = matched.keypoints[1].map((keypoint) => row(keypoint, scale2));
  const model = matched.model && inFilePixels(matched.model, matched.geometry, scale1, scale2);
  const residuals = matched.indices.map(([i, j]) => {
    if (!model) return -1;
    const points = [keypoints1[i].slice(0, 2) as Point, keypoints2[j].slice(0, 2) as Point] as const;
    const residual = GEOMETRIES[matched.geometry].residual(model, ...points);
    return Number.isFinite(residual) ? residual : -1;
  });
  return {
    format: 1,
    image_size1: first.original,
    image_size2: second.original,
    geometry: matched.geometry,
    reliable: isReliable(matched.confidence),
    confidence: matched.confidence,
    model: model && [model.slice(0, 3), model.slice(3, 6), model.slice(6, 9)],
    settings: {
      image1: first.name,
      image2: second.name,
      descriptor: network.name,
      weights_sha256: network.weights_sha256,
      backend: "litert.js",
      precision: network.precision,
      max_keypoints: settings.keypoints,
      ...(network.reads === "patches" ? patchSettings(network, manifest) : {}),
      method: settings.ratio < 1 ? "mutual_ratio" : "mutual",
      ...(settings.ratio < 1 ? { ratio: settings.ratio } : {}),
      geometry: settings.geometry,
      threshold: THRESHOLD * scale2,
      seed: 0,
      estimator: "lo_ransac",
    },
    keypoints1,
    keypoints2,
    indices: matched.indices,
    scores: matched.distances.map((distance) => 1 - distance / network.output_dim),
    distances: matched.distances,
    inliers: matched.inliers,
    residuals,
  };
}

function patchSettings({ magnification }: PatchEntry, { detector }: Manifest): object {
  return { magnification, detector: "learned", detector_sha256: detector.weights_sha256, oriented: true };
}

function scaleOf({ bitmap, original: [width] }: Photograph): number {
  return width / bitmap.width;
}

/** x, y, size (twice the radius), angle in degrees, response. */
function row({ x, y, radius, angle, score }: Keypoint, scale: number): number[] {
  const degrees = ((angle * 180) / Math.PI + 720) % 360;
  return [(x + 0.5) * scale - 0.5, (y + 0.5) * scale - 0.5, 2 * radius * scale, degrees, score];
}

function inFilePixels(model: Matrix3, geometry: GeometryName, scale1: number, scale2: number): Matrix3 {
  const smaller1 = scaling(1 / scale1);
  if (geometry === "fundamental") return multiply(transpose(scaling(1 / scale2)), multiply(model, smaller1));
  const homography = multiply(scaling(scale2), multiply(model, smaller1));
  return homography.map((value) => value / Math.abs(homography[8]));
}

/** Scales pixels whose centres lie at integers. */
function scaling(scale: number): Matrix3 {
  const shift = (scale - 1) / 2;
  return [scale, 0, shift, 0, scale, shift, 0, 0, 1];
}
