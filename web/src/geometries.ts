/** Homographies and fundamental matrices from matches, by Hartley's normalised linear methods. */

import { determinant, type Matrix3, multiply, smallestEigenvector, transpose } from "./matrices";

export type Point = [number, number];
export type GeometryName = "homography" | "fundamental";
/** Which geometry to estimate; auto: the one that the matches support. */
export type GeometryChoice = GeometryName | "auto";

export interface Geometry {
  /** Least number of matches that determine a model. */
  sample: number;
  /** The model that fits all given matches best, or null if they do not determine one. */
  fit(first: Point[], second: Point[]): Matrix3 | null;
  /** How far, in pixels, a match is from a model. */
  residual(model: Matrix3, first: Point, second: Point): number;
}

export const GEOMETRIES: Record<GeometryName, Geometry> = {
  homography: {
    sample: 4,
    fit(first, second) {
      const [to1, to2] = [normalisation(first), normalisation(second)];
      const solution = solve(first, second, to1, to2, (x, y, u, v) => [
        [x, y, 1, 0, 0, 0, -u * x, -u * y, -u],
        [0, 0, 0, x, y, 1, -v * x, -v * y, -v],
      ]);
      const homography = multiply(inverseNormalisation(to2), multiply(solution, to1));
      // Views of one side of a plane do not mirror it: what both see has a positive depth.
      return scaled(homography, Math.sign(determinant(homography)) * Math.abs(homography[8]));
    },
    residual(h, [x, y], [u, v]) {
      const depth = h[6] * x + h[7] * y + h[8];
      if (!(depth > 0)) return Infinity; // beyond the horizon
      const dx = (h[0] * x + h[1] * y + h[2]) / depth - u;
      const dy = (h[3] * x + h[4] * y + h[5]) / depth - v;
      return Math.hypot(dx, dy);
    },
  },
  fundamental: {
    sample: 8,
    fit(first, second) {
      const [to1, to2] = [normalisation(first), normalisation(second)];
      const solution = solve(first, second, to1, to2, (x, y, u, v) => [
        [u * x, u * y, u, v * x, v * y, v, x, y, 1],
      ]);
      const fundamental = multiply(transpose(to2), multiply(ofRankTwo(solution), to1));
      return scaled(fundamental, Math.hypot(...fundamental));
    },
    /** The Sampson distance. */
    residual(f, [x, y], [u, v]) {
      const a = f[0] * x + f[1] * y + f[2];
      const b = f[3] * x + f[4] * y + f[5];
      const c = f[6] * x + f[7] * y + f[8];
      const d = f[0] * u + f[3] * v + f[6];
      const e = f[1] * u + f[4] * v + f[7];
      return Math.abs(u * a + v * b + c) / Math.max(Math.hypot(a, b, d, e), 1e-300);
    },
  },
};

type Equations = (x: number, y: number, u: number, v: number) => number[][];

/** The unit vector that solves homogeneous equations of normalised matches best. */
function solve(first: Point[], second: Point[], to1: Matrix3, to2: Matrix3, equations: Equations): Matrix3 {
  const normal = new Float64Array(81);
  for (let k = 0; k < first.length; k++) {
    const [x, y] = apply(to1, first[k]);
    const [u, v] = apply(to2, second[k]);
    for (const row of equations(x, y, u, v)) {
      for (let i = 0; i < 9; i++) {
        for (let j = 0; j < 9; j++) normal[9 * i + j] += row[i] * row[j];
      }
    }
  }
  return smallestEigenvector(normal, 9);
}

/** Moves points to the origin and scales them to a mean distance of √2. */
function normalisation(points: Point[]): Matrix3 {
  const count = points.length;
  const x = points.reduce((sum, point) => sum + point[0], 0) / count;
  const y = points.reduce((sum, point) => sum + point[1], 0) / count;
  const distance = points.reduce((sum, point) => sum + Math.hypot(point[0] - x, point[1] - y), 0) / count;
  const scale = Math.SQRT2 / distance;
  return [scale, 0, -scale * x, 0, scale, -scale * y, 0, 0, 1];
}

function inverseNormalisation([scale, , x, , , y]: Matrix3): Matrix3 {
  return [1 / scale, 0, -x / scale, 0, 1 / scale, -y / scale, 0, 0, 1];
}

function apply(m: Matrix3, [x, y]: Point): Point {
  return [m[0] * x + m[2], m[4] * y + m[5]];
}

/** The nearest matrix of rank two: what maps the least singular vector to anything is removed. */
function ofRankTwo(m: Matrix3): Matrix3 {
  const null1 = smallestEigenvector(Float64Array.from(multiply(transpose(m), m)), 3);
  const image = [0, 1, 2].map((i) => m[3 * i] * null1[0] + m[3 * i + 1] * null1[1] + m[3 * i + 2] * null1[2]);
  return m.map((value, i) => value - image[Math.floor(i / 3)] * null1[i % 3]);
}

/** Null where matches are too few or in one place, which divides by zero. */
function scaled(m: Matrix3, divisor: number): Matrix3 | null {
  const result = m.map((value) => value / divisor);
  return result.every(Number.isFinite) ? result : null;
}
