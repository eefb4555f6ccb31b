/** Matching two photographs with one network. */

import type { Detector, Features, PhotographFeatures } from "./features";
import type { Point } from "./geometries";
import { matchBits } from "./hamming";
import type { NetworkEntry } from "./manifest";
import type { Network } from "./network";
import { type MatchedPair, type Settings, THRESHOLD } from "./protocol";
import { type Verification, verify } from "./ransac";
import type { Stopwatch } from "./stopwatch";
import { isReliable } from "./verdict";

/**
 * Matches two photographs.
 *
 * A network of whole images does not match what is turned: where there is no reliable match, the
 * second photograph may be turned by quarters (match_turned of doap_tf/matching/image_matching.py).
 */
export async function matchPair(
  [one, two]: PhotographFeatures[],
  network: Network,
  entry: NetworkEntry,
  detector: () => Promise<Detector>,
  settings: Settings,
  watch: Stopwatch,
  turns: boolean,
): Promise<MatchedPair> {
  const first = await one.extract(settings.keypoints, network, entry, detector, watch);
  let best: MatchedPair | null = null;
  for (const quarters of [0, 1, 2, 3]) {
    const second = await two.extract(settings.keypoints, network, entry, detector, watch, quarters);
    const pair = await matchFeatures(first, second, entry.output_dim, settings, watch);
    if (!best || isBetter(pair, best)) best = { ...pair, turn: 90 * quarters };
    if (!turns || entry.reads === "patches" || isReliable(best.confidence)) break;
  }
  return best!;
}

function isBetter(one: Verification, two: Verification): boolean {
  const [inliers, others] = [one, two].map((verified) => verified.inliers.filter(Boolean).length);
  return one.confidence > two.confidence || (one.confidence === two.confidence && inliers > others);
}

async function matchFeatures(
  first: Features,
  second: Features,
  bits: number,
  settings: Settings,
  watch: Stopwatch,
): Promise<Omit<MatchedPair, "turn">> {
  const matches = await watch.time("match", () => matchBits(first.rows, second.rows, bits / 32, settings.ratio));
  const [points1, points2] = [first, second].map(({ keypoints }, side) =>
    matches.indices.map((pair): Point => [keypoints[pair[side]].x, keypoints[pair[side]].y]),
  );
  const verified = await watch.time("verify", () => verify(settings.geometry, points1, points2, THRESHOLD));
  return { keypoints: [first.keypoints, second.keypoints], ...matches, ...verified };
}
