/** Milliseconds of each stage, added up. */

export type Stage = "detect" | "orient" | "cut" | "describe" | "match" | "verify" | "warp";

export class Stopwatch {
  readonly milliseconds: Partial<Record<Stage, number>> = {};

  async time<T>(stage: Stage, work: () => T | Promise<T>): Promise<T> {
    const start = performance.now();
    try {
      return await work();
    } finally {
      this.milliseconds[stage] = (this.milliseconds[stage] ?? 0) + performance.now() - start;
    }
  }
}
