/** The page's side of the worker: a promise for every request. */

import type { Matched, Response, Started, Work } from "./protocol";

export class Client {
  private readonly worker: Worker;
  private readonly waiting = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
  private last = 0;

  constructor(url: string) {
    this.worker = new Worker(url);
    this.worker.addEventListener("message", ({ data }: MessageEvent<Response>) => {
      const request = this.waiting.get(data.id);
      this.waiting.delete(data.id);
      if ("error" in data) request?.reject(new Error(data.error));
      else request?.resolve(data.result as never);
    });
    this.worker.addEventListener("error", (event) => {
      for (const { reject } of this.waiting.values()) reject(new Error(event.message || "The worker stopped."));
      this.waiting.clear();
    });
  }

  start(): Promise<Started> {
    return this.ask({ kind: "start" });
  }

  match(work: Omit<Extract<Work, { kind: "match" }>, "kind">): Promise<Matched> {
    return this.ask({ kind: "match", ...work });
  }

  private ask<T>(work: Work): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const id = ++this.last;
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ ...work, id });
    });
  }
}
