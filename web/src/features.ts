/** Keypoints and descriptors of one photograph, computed as far as they are asked for and kept. */

import { Pyramid } from "./cutting";
import { DenseReading } from "./dense";
import { detect } from "./detector";
import { type Grey, greyOf } from "./grey";
import type { Keypoint } from "./keypoints";
import type { DenseEntry, DetectorEntry, NetworkEntry, PatchEntry } from "./manifest";
import type { Network } from "./network";
import { dominantAngle } from "./orientation";
import type { Stopwatch } from "./stopwatch";

export interface Detector {
  network: Network;
  entry: DetectorEntry;
}

export interface Features {
  keypoints: Keypoint[];
  /** Bits of the keypoints, as 32-bit words. */
  rows: Uint32Array;
}

/** The strongest keypoints, and what describes those from one number to another by packed bits. */
interface Found {
  keypoints: Keypoint[];
  describe: (start: number, stop: number) => Promise<Uint8Array>;
}

export class PhotographFeatures {
  private keypoints: Keypoint[] | null = null;
  private oriented = 0;
  private readonly readings = new Map<string, DenseReading>();
  private readonly descriptors = new Map<string, Uint8Array>();
  private readonly grey: Grey;
  private readonly pyramid: Pyramid;

  constructor(readonly image: ImageData) {
    this.grey = greyOf(image);
    this.pyramid = new Pyramid(this.grey);
  }

  /**
   * Finds keypoints and describes them.
   *
   * @param detector Opens what finds keypoints for a network of patches.
   * @param quarters By which a network of whole images sees the photograph turned to the left.
   */
  async extract(
    count: number,
    network: Network,
    entry: NetworkEntry,
    detector: () => Promise<Detector>,
    watch: Stopwatch,
    quarters = 0,
  ): Promise<Features> {
    const { keypoints, describe } =
      entry.reads === "images"
        ? await this.read(count, network, entry, watch, quarters)
        : await this.detect(count, network, entry, await detector(), watch);
    const bytes = entry.output_dim / 8;
    const key = `${entry.file} ${quarters}`;
    let rows = this.descriptors.get(key) ?? new Uint8Array(0);
    if (rows.length < keypoints.length * bytes) {
      const added = await describe(rows.length / bytes, keypoints.length);
      const extended = new Uint8Array(rows.length + added.length);
      extended.set(rows);
      extended.set(added, rows.length);
      this.descriptors.set(key, (rows = extended));
    }
    return { keypoints, rows: new Uint32Array(rows.slice(0, keypoints.length * bytes).buffer) };
  }

  private async read(
    count: number,
    network: Network,
    entry: DenseEntry,
    watch: Stopwatch,
    quarters: number,
  ): Promise<Found> {
    const key = `${entry.file} ${quarters}`;
    const reading =
      this.readings.get(key) ??
      (await watch.time("detect", () => DenseReading.of(this.grey, network, entry, quarters)));
    this.readings.set(key, reading);
    return {
      keypoints: reading.keypoints.slice(0, count),
      describe: (start, stop) => watch.time("describe", () => reading.describe(start, stop)),
    };
  }

  /** Keypoints are turned to their dominant gradients. */
  private async detect(
    count: number,
    network: Network,
    entry: PatchEntry,
    detector: Detector,
    watch: Stopwatch,
  ): Promise<Found> {
    this.keypoints ??= await watch.time("detect", () => detect(this.grey, detector.network, detector.entry));
    const all = this.keypoints;
    await watch.time("orient", () => {
      for (; this.oriented < Math.min(count, all.length); this.oriented++) {
        all[this.oriented].angle = dominantAngle(this.pyramid, all[this.oriented]);
      }
    });
    return {
      keypoints: all.slice(0, count),
      describe: (start, stop) => describeAt(this.pyramid, all.slice(start, stop), network, entry, watch),
    };
  }
}

/** Cuts patches and describes them, one batch at a time: packed bits, row after row. */
export async function describeAt(
  pyramid: Pyramid,
  keypoints: Keypoint[],
  network: Network,
  entry: PatchEntry,
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
