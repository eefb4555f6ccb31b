/** The little linear algebra that two views need; matrices are row-major arrays. */

export type Matrix3 = number[];

export function multiply(a: Matrix3, b: Matrix3): Matrix3 {
  const product = new Array<number>(9).fill(0);
  for (let i = 0; i < 9; i++) {
    for (let k = 0; k < 3; k++) product[i] += a[3 * Math.floor(i / 3) + k] * b[3 * k + (i % 3)];
  }
  return product;
}

export function transpose(m: Matrix3): Matrix3 {
  return [m[0], m[3], m[6], m[1], m[4], m[7], m[2], m[5], m[8]];
}

export function determinant(m: Matrix3): number {
  return (
    m[0] * (m[4] * m[8] - m[5] * m[7]) - m[1] * (m[3] * m[8] - m[5] * m[6]) + m[2] * (m[3] * m[7] - m[4] * m[6])
  );
}

/** The unit eigenvector of the smallest eigenvalue of a symmetric n×n matrix, by Jacobi's method. */
export function smallestEigenvector(symmetric: Float64Array, n: number): number[] {
  const a = symmetric.slice();
  const v = new Float64Array(n * n);
  for (let i = 0; i < n; i++) v[i * n + i] = 1;
  for (let sweep = 0; sweep < 12; sweep++) {
    let outside = 0;
    let inside = 0;
    for (let p = 0; p < n; p++) {
      inside += a[p * n + p] ** 2;
      for (let q = p + 1; q < n; q++) outside += a[p * n + q] ** 2;
    }
    if (outside <= 1e-28 * inside) break;
    for (let p = 0; p < n; p++) {
      for (let q = p + 1; q < n; q++) rotate(a, v, n, p, q);
    }
  }
  let least = 0;
  for (let i = 1; i < n; i++) if (a[i * n + i] < a[least * n + least]) least = i;
  return Array.from({ length: n }, (_, i) => v[i * n + least]);
}

/** Makes a[p, q] zero by a rotation, which v collects. */
function rotate(a: Float64Array, v: Float64Array, n: number, p: number, q: number): void {
  const apq = a[p * n + q];
  if (apq === 0) return;
  const theta = (a[q * n + q] - a[p * n + p]) / (2 * apq);
  const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
  const c = 1 / Math.sqrt(t * t + 1);
  const s = t * c;
  for (let k = 0; k < n; k++) {
    const [kp, kq] = [a[k * n + p], a[k * n + q]];
    a[k * n + p] = c * kp - s * kq;
    a[k * n + q] = s * kp + c * kq;
  }
  for (let k = 0; k < n; k++) {
    const [pk, qk] = [a[p * n + k], a[q * n + k]];
    a[p * n + k] = c * pk - s * qk;
    a[q * n + k] = s * pk + c * qk;
  }
  for (let k = 0; k < n; k++) {
    const [kp, kq] = [v[k * n + p], v[k * n + q]];
    v[k * n + p] = c * kp - s * kq;
    v[k * n + q] = s * kp + c * kq;
  }
}
