/** The list of networks that export_models.py writes. */

export interface DetectorEntry {
  file: string;
  bytes: number;
  stride: number;
  receptive_field: number;
  radius: number;
  image_size: [number, number];
  weights_sha256: string;
}

interface Described {
  name: string;
  file: string;
  bytes: number;
  precision: string;
  output_dim: number;
  weights_sha256: string;
}

/** A network that describes patches. */
export interface PatchEntry extends Described {
  reads: "patches";
  input_size: number;
  magnification: number;
  batch_size: number;
}

/** A network that reads whole images. */
export interface DenseEntry extends Described {
  reads: "images";
  feature_strides: number[];
  /** Heights and widths. */
  image_size: [number, number][];
  /** Points that are described at once. */
  rows: number;
}

export type NetworkEntry = PatchEntry | DenseEntry;

export interface Manifest {
  detector: DetectorEntry;
  networks: NetworkEntry[];
}

export async function readManifest(base: string): Promise<Manifest> {
  const response = await fetch(new URL("models/index.json", base));
  if (!response.ok) throw new Error(`models/index.json: ${response.status}; run make demo`);
  return response.json();
}
