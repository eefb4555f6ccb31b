/** What the page and its worker say to each other. */

import type { GeometryChoice } from "./geometries";
import type { Matches } from "./hamming";
import type { Keypoint } from "./keypoints";
import type { Manifest } from "./manifest";
import type { Verification } from "./ransac";
import type { Stage } from "./stopwatch";

export interface Settings {
  /** File of the network. */
  network: string;
  keypoints: number;
  /** 1: no test of the ratio. */
  ratio: number;
  geometry: GeometryChoice;
}

/** A picture; features are kept as long as its number is used. */
export interface NumberedImage {
  number: number;
  bitmap: ImageBitmap;
}

export type Work =
  | { kind: "start" }
  | { kind: "match"; first: NumberedImage; second: NumberedImage; settings: Settings; live: boolean };

export type Request = Work & { id: number };

export interface Started {
  manifest: Manifest;
  threads: number;
  milliseconds: number;
}

export interface MatchedPair extends Matches, Verification {
  keypoints: [Keypoint[], Keypoint[]];
  /** Degrees by which the second picture was turned to the left. */
  turn: number;
}

export interface Matched extends MatchedPair {
  /** The second picture seen from the first, if a reliable homography was found; not of a live one. */
  warped: ImageBitmap | null;
  milliseconds: Partial<Record<Stage, number>>;
  /** Milliseconds that the network took to load, now or earlier. */
  loading: number;
}

export type Response = { id: number } & ({ result: Started | Matched } | { error: string });

/** Pixels within which a match is an inlier. */
export const THRESHOLD = 3;
