/** Two pictures beside or above each other with a line for every inlier of a reliable match. */

import type { Matrix3 } from "./matrices";
import type { Matched } from "./protocol";
import { isReliable } from "./verdict";

const GAP = 8;

export interface Layout {
  /** In pixels of the canvas. */
  width: number;
  height: number;
  /** Pixels of the canvas per pixel of a picture. */
  scale: number;
  /** Pixels of the canvas per pixel of the page. */
  density: number;
  /** Where the second picture begins. */
  right: number;
  down: number;
}

/** Pictures beside each other unless the page has little room and they are wide. */
export function layOut(first: ImageBitmap, second: ImageBitmap, room: number, density: number): Layout {
  const below = room < 600 && first.width + second.width > 1.2 * (first.height + second.height);
  const wide = below ? Math.max(first.width, second.width) : first.width + second.width + GAP;
  const high = below ? first.height + second.height + GAP : Math.max(first.height, second.height);
  const scale = density * Math.min(1, room / wide);
  return {
    width: Math.round(wide * scale),
    height: Math.round(high * scale),
    scale,
    density,
    right: below ? 0 : first.width + GAP,
    down: below ? first.height + GAP : 0,
  };
}

export function drawMatches(
  canvas: HTMLCanvasElement,
  first: ImageBitmap,
  second: ImageBitmap,
  matched: Matched,
  layout: Layout,
  outline: boolean,
): void {
  canvas.width = layout.width;
  canvas.height = layout.height;
  canvas.style.width = `${layout.width / layout.density}px`;
  const context = canvas.getContext("2d");
  if (!context) return;
  context.imageSmoothingQuality = "high";
  context.scale(layout.scale, layout.scale);
  context.drawImage(first, 0, 0);
  context.drawImage(second, layout.right, layout.down);
  if (!isReliable(matched.confidence)) return;
  if (outline && matched.model) drawOutline(context, first, second, matched.model, layout);
  const thick = layout.density / layout.scale;
  context.lineWidth = 1.4 * thick;
  matched.indices.forEach(([i, j], number) => {
    if (!matched.inliers[number]) return;
    const [from, to] = [matched.keypoints[0][i], matched.keypoints[1][j]];
    const [x, y] = [to.x + 0.5 + layout.right, to.y + 0.5 + layout.down];
    // Neighbours in the first picture have similar colours, so that a wrong line stands out.
    const hue = (360 * (from.x / first.width + from.y / first.height)) / 2;
    context.strokeStyle = context.fillStyle = `hsl(${hue} 95% 60%)`;
    context.globalAlpha = 0.55;
    context.beginPath();
    context.moveTo(from.x + 0.5, from.y + 0.5);
    context.lineTo(x, y);
    context.stroke();
    context.globalAlpha = 1;
    for (const [u, v] of [[from.x + 0.5, from.y + 0.5], [x, y]]) {
      context.beginPath();
      context.arc(u, v, 2.2 * thick, 0, 2 * Math.PI);
      context.fill();
    }
  });
}

/** The frame of the first picture where the second one shows it. */
function drawOutline(
  context: CanvasRenderingContext2D,
  first: ImageBitmap,
  second: ImageBitmap,
  h: Matrix3,
  layout: Layout,
): void {
  const corners = [[0, 0], [first.width, 0], [first.width, first.height], [0, first.height]].map(([x, y]) => {
    const depth = h[6] * x + h[7] * y + h[8];
    return [(h[0] * x + h[1] * y + h[2]) / depth, (h[3] * x + h[4] * y + h[5]) / depth, depth];
  });
  if (corners.some(([, , depth]) => depth <= 0)) return;
  context.save();
  context.beginPath();
  context.rect(layout.right, layout.down, second.width, second.height);
  context.clip();
  context.strokeStyle = "#fff";
  context.lineWidth = (3 * layout.density) / layout.scale;
  context.beginPath();
  for (const [u, v] of corners) context.lineTo(u + layout.right, v + layout.down);
  context.closePath();
  context.stroke();
  context.restore();
}
