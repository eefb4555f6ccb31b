/** Estimating a model from matches of which many may be wrong: RANSAC with local optimisation. */

import { GEOMETRIES, type GeometryChoice, type GeometryName, type Point } from "./geometries";
import type { Matrix3 } from "./matrices";
import { confidence, evidence, hasParallax } from "./verdict";

const CONFIDENCE = 0.9999;
const MOST_SAMPLES = 4000;
const REFINEMENTS = 8;

export interface Verification {
  geometry: GeometryName;
  model: Matrix3 | null;
  inliers: boolean[];
  /** 0…1 that both show the same scene, at least 0.5 if the match is reliable. */
  confidence: number;
}

/** Estimates a geometry, of two the better supported one. */
export function verify(choice: GeometryChoice, first: Point[], second: Point[], threshold: number): Verification {
  if (choice !== "auto") return verifyBy(choice, first, second, threshold);
  const plane = verifyBy("homography", first, second, threshold);
  const cameras = verifyBy("fundamental", first, second, threshold);
  if (!cameras.model) return plane;
  if (hasParallax(first, second, plane.model, cameras.model, threshold)) {
    return { ...cameras, confidence: Math.max(cameras.confidence, plane.confidence) };
  }
  return cameras.confidence > plane.confidence ? cameras : plane;
}

function verifyBy(name: GeometryName, first: Point[], second: Point[], threshold: number): Verification {
  const geometry = GEOMETRIES[name];
  const count = first.length;
  let best: Scored = { model: null, score: Infinity, inliers: [] };
  const random = randomNumbers(0);
  let samples = count < geometry.sample ? 0 : MOST_SAMPLES;
  for (let drawn = 0; drawn < samples; drawn++) {
    const found = fit(draw(geometry.sample, count, random));
    if (found.score >= best.score) continue;
    best = refined(found);
    const share = (best.inliers.length / count) ** geometry.sample;
    samples = Math.min(samples, Math.ceil(Math.log(1 - CONFIDENCE) / Math.log(1 - Math.min(share, 1 - 1e-9))));
  }
  const inliers = new Set(best.inliers);
  const digits = best.model ? evidence(first, second, { geometry: name, matrix: best.model }, threshold) : 0;
  return {
    geometry: name,
    model: best.model,
    inliers: first.map((_, i) => inliers.has(i)),
    confidence: confidence(digits),
  };

  function fit(chosen: number[]): Scored {
    const model = geometry.fit(
      chosen.map((i) => first[i]),
      chosen.map((i) => second[i]),
    );
    if (!model) return { model, score: Infinity, inliers: [] };
    const inliers: number[] = [];
    let score = 0;
    for (let i = 0; i < count; i++) {
      const residual = geometry.residual(model, first[i], second[i]);
      if (residual <= threshold) inliers.push(i);
      score += Math.min(residual, threshold) ** 2;
    }
    return { model, score, inliers };
  }

  /** Fits to all inliers as long as that helps. */
  function refined(scored: Scored): Scored {
    for (let i = 0; i < REFINEMENTS && scored.inliers.length > geometry.sample; i++) {
      const next = fit(scored.inliers);
      if (next.score >= scored.score) break;
      scored = next;
    }
    return scored;
  }
}

interface Scored {
  model: Matrix3 | null;
  /** Sum of squared residuals, each cut off at the threshold. */
  score: number;
  inliers: number[];
}

function draw(size: number, count: number, random: () => number): number[] {
  const chosen = new Set<number>();
  while (chosen.size < size) chosen.add(Math.floor(random() * count));
  return [...chosen];
}

/** Numbers in [0, 1) that are the same for the same seed (mulberry32). */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
