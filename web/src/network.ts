/** Running .tflite files of fixed shapes by LiteRT.js, on the CPU. */

import { type CompiledModel, loadAndCompile, loadLiteRt, supportsFeature, Tensor } from "@litertjs/core";

const MOST_THREADS = 4; // phones have few fast cores

let threads = 1;

/**
 * Loads the wasm that suits the browser; returns the number of its threads.
 *
 * Threads need a page that is cross-origin isolated.
 */
export async function startRuntime(base: string, most = MOST_THREADS): Promise<number> {
  const isolated = self.crossOriginIsolated && (await supportsFeature("relaxedSimd"));
  threads = isolated ? Math.max(1, Math.min(navigator.hardwareConcurrency, most)) : 1;
  const folder = new URL("wasm/", base).href;
  // In a worker LiteRT.js would look for its files, and for the script of its threads, at the
  // worker's own address.
  Object.assign(self, {
    Module: {
      locateFile: (file: string) => folder + file,
      mainScriptUrlOrBlob: `${folder}litert_wasm_threaded_internal.js`,
    },
  });
  await loadLiteRt(folder, { threads: threads > 1 });
  return threads;
}

export class Network {
  private constructor(
    private readonly model: CompiledModel,
    private readonly shape: Int32Array,
  ) {}

  static async load(url: string): Promise<Network> {
    const response = await fetch(url);
    if (!response.ok) throw new Error(`${url}: ${response.status}`);
    const model = await loadAndCompile(new Uint8Array(await response.arrayBuffer()), {
      accelerator: "wasm",
      cpuOptions: { numThreads: threads },
    });
    return new Network(model, model.getInputDetails()[0].shape);
  }

  /** Runs one batch; the result is a copy. */
  async run(input: Float32Array): Promise<Float32Array | Int32Array | Uint8Array> {
    const tensor = new Tensor(input, this.shape);
    const outputs = await this.model.run(tensor);
    tensor.delete();
    const values = outputs[0].toTypedArray().slice();
    for (const output of outputs) output.delete();
    return values;
  }

  delete(): void {
    this.model.delete();
  }
}
