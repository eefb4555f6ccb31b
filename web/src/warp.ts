/** The second photograph as the first one's camera would see it. */

import type { Matrix3 } from "./matrices";

/** Bilinear; transparent where the second photograph shows nothing. */
export function warpOnto(second: ImageData, homography: Matrix3, width: number, height: number): ImageData {
  const result = new ImageData(width, height);
  const from = second.data;
  const to = result.data;
  const row = 4 * second.width;
  const h = homography;
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i += 4) {
      const depth = h[6] * x + h[7] * y + h[8];
      if (!(depth > 0)) continue;
      const u = (h[0] * x + h[1] * y + h[2]) / depth;
      const v = (h[3] * x + h[4] * y + h[5]) / depth;
      if (!(u >= 0 && v >= 0 && u < second.width - 1 && v < second.height - 1)) continue;
      const left = Math.floor(u);
      const above = Math.floor(v);
      const start = above * row + 4 * left;
      for (let channel = 0; channel < 3; channel++) {
        const k = start + channel;
        const top = from[k] + (from[k + 4] - from[k]) * (u - left);
        const bottom = from[k + row] + (from[k + row + 4] - from[k + row]) * (u - left);
        to[i + channel] = top + (bottom - top) * (v - above);
      }
      to[i + 3] = 255;
    }
  }
  return result;
}
