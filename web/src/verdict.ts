/** Whether matches show the same scene, by the rule of doap_tf/matching/verdict.py. */

import { GEOMETRIES, type GeometryName, type Point } from "./geometries";
import type { Matrix3 } from "./matrices";

const RELIABLE_EVIDENCE = 2;
const PARALLAX_EVIDENCE = 30;
const CELL = 12; // pixels
const CROWDED = 0.25; // share of inliers that still fit when paired anew
const PARTNERS = 256; // with which a point is paired anew, at most
const NEIGHBOURS = 24; // with which a match that does not fit is paired anew
const COMPANIONS = 4; // nearest inliers, one of which stays near
const STRETCH = 2; // of the distance to a companion, besides the scale of all
const OFF_PLANE = 3; // thresholds from where a homography maps a match
const SAMPLES: Record<GeometryName, number> = { homography: 4, fundamental: 7 };
const PARALLAX_SAMPLE = 2; // matches that determine a fundamental matrix if a homography is known

export interface Model {
  geometry: GeometryName;
  matrix: Matrix3;
}

/** The digits of evidence that matches show the same scene; 0 if chance explains them. */
export function evidence(
  first: Point[],
  second: Point[],
  model: Model,
  threshold: number,
  sample = SAMPLES[model.geometry],
): number {
  const { residual } = GEOMETRIES[model.geometry];
  const fits = (i: number, j: number) => residual(model.matrix, first[i], second[j]) <= threshold;
  const isInlier = first.map((_, i) => fits(i, i));
  const rows = onePerCell(first, second, isInlier);
  const inliers = rows.filter((i) => isInlier[i]);
  const widths = [first, second].map((points) => width(inliers.map((i) => points[i])));
  if (inliers.length <= sample || Math.min(...widths) < CELL / 2) return 0;
  const trials = rows.length - sample;
  const successes = Math.trunc(shareTogether(first, second, inliers) * inliers.length) - sample;
  if (successes <= 0) return 0;
  const inside = pairedAnew(inliers, fits);
  if (inside.hits > CROWDED * inside.pairs) return 0;
  const chance = shareByChance(first, second, rows, isInlier, fits);
  const share = successes / trials;
  if (share <= chance) return 0;
  let nats = successes * Math.log(share / chance);
  if (successes < trials) nats += (trials - successes) * Math.log((1 - share) / (1 - chance));
  for (let i = 0; i < sample; i++) nats -= Math.log((rows.length - i) / (i + 1)); // ways to choose a sample
  return Math.max(0, nats / Math.LN10);
}

/** Evidence as a number 0…1, 0.5 from where a pair is reliable. */
export function confidence(digits: number): number {
  return digits / (digits + RELIABLE_EVIDENCE);
}

export function isReliable(confidence: number): boolean {
  return confidence >= 0.5;
}

/** Whether a fundamental matrix explains matches that a homography does not, beyond chance. */
export function hasParallax(
  first: Point[],
  second: Point[],
  homography: Matrix3 | null,
  fundamental: Matrix3,
  threshold: number,
): boolean {
  const { residual } = GEOMETRIES.homography;
  const off = first
    .map((_, i) => i)
    .filter((i) => !homography || residual(homography, first[i], second[i]) > OFF_PLANE * threshold);
  const [one, two] = [first, second].map((points) => off.map((i) => points[i]));
  const model: Model = { geometry: "fundamental", matrix: fundamental };
  return evidence(one, two, model, threshold, PARALLAX_SAMPLE) >= PARALLAX_EVIDENCE;
}

/** Matches no two of which share a cell in either image; inliers come first. */
function onePerCell(first: Point[], second: Point[], isInlier: boolean[]): number[] {
  const all = first.map((_, i) => i);
  let rows = [...all.filter((i) => isInlier[i]), ...all.filter((i) => !isInlier[i])];
  for (const points of [first, second]) {
    const taken = new Set<string>();
    rows = rows.filter((i) => {
      const cell = points[i].map((value) => Math.floor(value / CELL)).join();
      return !taken.has(cell) && taken.add(cell);
    });
  }
  return rows;
}

/** The standard deviation of points in the direction in which it is smallest. */
function width(points: Point[]): number {
  const mean = [0, 1].map((axis) => points.reduce((sum, point) => sum + point[axis], 0) / points.length);
  const covariance = (a: number, b: number) =>
    points.reduce((sum, point) => sum + (point[a] - mean[a]) * (point[b] - mean[b]), 0) / points.length;
  const [xx, xy, yy] = [covariance(0, 0), covariance(0, 1), covariance(1, 1)];
  return Math.sqrt(Math.max(0, (xx + yy) / 2 - Math.hypot((xx - yy) / 2, xy)));
}

/** The share of matches with a companion in either image that stays near in the other. */
function shareTogether(first: Point[], second: Point[], inliers: number[]): number {
  const rows = atMost(PARTNERS, inliers);
  const scale = Math.sqrt(spread(second, inliers) / spread(first, inliers));
  const staysNear = (here: Point[], there: Point[], scale: number, i: number) =>
    nearest(here, inliers, i, COMPANIONS).some(
      (j) => distance(there[i], there[j]) <= STRETCH * scale * distance(here[i], here[j]) + CELL / 2,
    );
  const together = rows.filter((i) => staysNear(first, second, scale, i) && staysNear(second, first, 1 / scale, i));
  return together.length / rows.length;
}

/** The sum of the variances of x and y. */
function spread(points: Point[], rows: number[]): number {
  const mean = [0, 1].map((axis) => rows.reduce((sum, i) => sum + points[i][axis], 0) / rows.length);
  return rows.reduce((sum, i) => sum + square(points[i][0] - mean[0]) + square(points[i][1] - mean[1]), 0) / rows.length;
}

function distance(one: Point, other: Point): number {
  return Math.hypot(one[0] - other[0], one[1] - other[1]);
}

/** The share of wrong pairs that fit: of any matches, or of neighbours if that is larger. */
function shareByChance(first: Point[], second: Point[], rows: number[], isInlier: boolean[], fits: Fits): number {
  const { hits, pairs } = pairedAnew(rows, fits);
  const wrong = atMost(PARTNERS, rows.filter((i) => !isInlier[i]));
  const nearby = [first, second].map((points) => pairedNearby(points, rows, wrong, fits));
  const share = Math.max(...nearby.map(({ hits, pairs }) => (pairs ? hits / pairs : 0)));
  return Math.max((hits + 1) / (pairs + 1), share + 1 / (NEIGHBOURS * rows.length));
}

type Fits = (i: number, j: number) => boolean;

interface Tally {
  hits: number;
  pairs: number;
}

/** How many pairs of points of different matches fit, and of how many. */
function pairedAnew(rows: number[], fits: Fits): Tally {
  const partners = atMost(PARTNERS, rows);
  let hits = 0;
  for (const j of partners) for (const i of rows) if (i !== j && fits(i, j)) hits++;
  return { hits, pairs: partners.length * (rows.length - 1) };
}

/** How many pairs of matches that do not fit with their neighbours do, and of how many. */
function pairedNearby(points: Point[], rows: number[], wrong: number[], fits: Fits): Tally {
  let [hits, pairs] = [0, 0];
  for (const j of wrong) {
    const near = nearest(points, rows, j, NEIGHBOURS);
    pairs += near.length;
    hits += near.filter((i) => fits(i, j)).length;
  }
  return { hits, pairs };
}

function nearest(points: Point[], rows: number[], j: number, count: number): number[] {
  const [x, y] = points[j];
  const squares = Float64Array.from(rows, (i) => square(points[i][0] - x) + square(points[i][1] - y));
  const farthest = squares.slice().sort()[Math.min(count, rows.length - 1)]; // the first is the point itself
  return rows.filter((i, k) => i !== j && squares[k] <= farthest);
}

function square(value: number): number {
  return value * value;
}

/** So many of the rows, at equal distances. */
function atMost(count: number, rows: number[]): number[] {
  count = Math.min(count, rows.length);
  return Array.from({ length: count }, (_, k) => rows[Math.floor((k * rows.length) / count)]);
}
