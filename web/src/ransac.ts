/** Estimating a model from matches of which many may be wrong: RANSAC with local optimisation. */

import type { Geometry, Point } from "./geometries";
import type { Matrix3 } from "./matrices";

const CONFIDENCE = 0.9999;
const MOST_SAMPLES = 4000;
const REFINEMENTS = 8;

/** Inliers below which a model is taken for chance, as in COLMAP. */
export const FEWEST_INLIERS = 15;

export interface Verification {
  model: Matrix3 | null;
  inliers: boolean[];
}

export function verify(
  geometry: Geometry,
  first: Point[],
  second: Point[],
  threshold: number,
  seed = 0,
): Verification {
  const count = first.length;
  let best: Scored = { model: null, score: Infinity, inliers: [] };
  const random = randomNumbers(seed);
  let samples = count < FEWEST_INLIERS ? 0 : MOST_SAMPLES;
  for (let drawn = 0; drawn < samples; drawn++) {
    const found = fit(draw(geometry.sample, count, random));
    if (found.score >= best.score) continue;
    best = refined(found);
    const share = (best.inliers.length / count) ** geometry.sample;
    samples = Math.min(samples, Math.ceil(Math.log(1 - CONFIDENCE) / Math.log(1 - Math.min(share, 1 - 1e-9))));
  }
  if (!best.model || best.inliers.length < FEWEST_INLIERS) {
    return { model: null, inliers: first.map(() => false) };
  }
  const inliers = new Set(best.inliers);
  return { model: best.model, inliers: first.map((_, i) => inliers.has(i)) };

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
