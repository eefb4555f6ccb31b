/** Keypoints and descriptors of one photograph, computed as far as they are asked for and kept. */

import { Pyramid } from "./cutting";
import { detect } from "./detector";
import { type Grey, greyOf } from "./grey";
import type { Keypoint } from "./keypoints";
import type { DetectorEntry, NetworkEntry } from "./manifest";
import type { Network } from "./network";
import { dominantAngle } from "./orientation";
import type { Stopwatch } from "./stopwatch";

export class PhotographFeatures {
  private keypoints: Keypoint[] | null = null;
  private oriented = 0;
  private readonly descriptors = new Map<string, Uint8Array>();
  private readonly grey: Grey;
  private readonly pyramid: Pyramid;

  constructor(readonly image: ImageData) {
    this.grey = greyOf(image);
    this.pyramid = new Pyramid(this.grey);
  }

  /** The strongest keypoints, turned to their dominant gradients. */
  async detect(count: number, network: Network, entry: DetectorEntry, watch: Stopwatch): Promise<Keypoint[]> {
    this.keypoints ??= await watch.time("detect", () => detect(this.grey, network, entry));
    const all = this.keypoints;
    await watch.time("orient", () => {
      for (; this.oriented < Math.min(count, all.length); this.oriented++) {
        all[this.oriented].angle = dominantAngle(this.pyramid, all[this.oriented]);
      }
    });
    return all.slice(0, count);
  }

  /** Bits of the keypoints that `detect` returned, as 32-bit words. */
  async describe(
    keypoints: Keypoint[],
    network: Network,
    entry: NetworkEntry,
    watch: Stopwatch,
  ): Promise<Uint32Array> {
    const bytes = entry.output_dim / 8;
    let rows = this.descriptors.get(entry.file) ?? new Uint8Array(0);
    if (rows.length < keypoints.length * bytes) {
      const added = await describeAt(this.pyramid, keypoints.slice(rows.length / bytes), network, entry, watch);
      const extended = new Uint8Array(rows.length + added.length);
      extended.set(rows);
      extended.set(added, rows.length);
      this.descriptors.set(entry.file, (rows = extended));
    }
    return new Uint32Array(rows.slice(0, keypoints.length * bytes).buffer);
  }
}

/** Cuts patches and describes them, one batch at a time: packed bits, row after row. */
export async function describeAt(
  pyramid: Pyramid,
  keypoints: Keypoint[],
  network: Network,
  entry: NetworkEntry,
  watch: Stopwatch,
): Promise<Uint8Array> {
  const { input_size: size, batch_size: batch, magnification, output_dim: bits } = entry;
  const rows = new Uint8Array((keypoints.length * bits) / 8);
  const input = new Float32Array(batch * size * size);
  for (let start = 0; start < keypoints.length; start += batch) {
    const part = keypoints.slice(start, start + batch);
    await watch.time("cut", () =>
      part.forEach((keypoint, i) =>
        pyramid.cut(keypoint, size, magnification, input.subarray(i * size * size, (i + 1) * size * size)),
      ),
    );
    const output = await watch.time("describe", () => network.run(input));
    rows.set(output.subarray(0, (part.length * bits) / 8), (start * bits) / 8);
  }
  return rows;
}
