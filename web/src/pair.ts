/** Matching two photographs with one network. */

import type { Detector, PhotographFeatures } from "./features";
import type { Point } from "./geometries";
import { matchBits } from "./hamming";
import type { NetworkEntry } from "./manifest";
import type { Network } from "./network";
import { type MatchedPair, type Settings, THRESHOLD } from "./protocol";
import { verify } from "./ransac";
import type { Stopwatch } from "./stopwatch";

export async function matchPair(
  photographs: PhotographFeatures[],
  network: Network,
  entry: NetworkEntry,
  detector: () => Promise<Detector>,
  settings: Settings,
  watch: Stopwatch,
): Promise<MatchedPair> {
  const [one, two] = photographs;
  const first = await one.extract(settings.keypoints, network, entry, detector, watch);
  const second = await two.extract(settings.keypoints, network, entry, detector, watch);
  const words = entry.output_dim / 32;
  const matches = await watch.time("match", () => matchBits(first.rows, second.rows, words, settings.ratio));
  const points = [first, second].map(({ keypoints }, side) =>
    matches.indices.map((pair): Point => [keypoints[pair[side]].x, keypoints[pair[side]].y]),
  );
  const verified = await watch.time("verify", () => verify(settings.geometry, points[0], points[1], THRESHOLD));
  return { keypoints: [first.keypoints, second.keypoints], ...matches, ...verified };
}
