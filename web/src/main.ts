/** The page. */

import { Camera } from "./camera";
import { Client } from "./client";
import { drawMatches, layOut } from "./drawing";
import type { GeometryChoice, GeometryName } from "./geometries";
import type { Manifest } from "./manifest";
import { matchRecord } from "./match_file";
import { copyOf, type Photograph, readPhotograph, sizeNote } from "./photographs";
import type { Matched, Settings, Started } from "./protocol";
import type { Stage } from "./stopwatch";
import { isReliable } from "./verdict";

const LIVE_SIDE = 384; // pixels of the longer side of a live picture
const LIVE_KEYPOINTS = 300;
const STAGES: Record<Stage, string> = {
  detect: "Find keypoints",
  orient: "Turn them",
  cut: "Cut patches",
  describe: "Describe them",
  match: "Match bits",
  verify: "Verify by RANSAC",
  warp: "Warp",
};
const NAMES = ["First", "Second"];
const GEOMETRY_NAMES: Record<GeometryName, string> = {
  homography: "a homography",
  fundamental: "a fundamental matrix",
};

function element<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

const status = element("status");
const picture = element<HTMLCanvasElement>("matches");
const swapButton = element<HTMLButtonElement>("swap");
const cameraButton = element<HTMLButtonElement>("camera");
const sliders = ["keypoints", "ratio", "opacity"].map((id) => element<HTMLInputElement>(id));
const [keypointsSlider, ratioSlider, opacitySlider] = sliders;
const geometryChoice = element<HTMLSelectElement>("geometry");
const networkChoice = element<HTMLSelectElement>("network");

const photographs: (Photograph | null)[] = [null, null];
let client: Client;
let started: Started;
let shown: { matched: Matched; settings: Settings; pair: [Photograph, Photograph] } | null = null;
let camera: Camera | null = null;

function settings(): Settings {
  return {
    network: networkChoice.value,
    keypoints: Number(keypointsSlider.value),
    ratio: Number(ratioSlider.value),
    geometry: geometryChoice.value as GeometryChoice,
  };
}

function tell(text: string): void {
  status.textContent = text;
}

function complain(error: unknown): void {
  element("error").textContent = error === null ? "" : error instanceof Error ? error.message : String(error);
}

// Photographs

async function choose(side: number, file: Blob, name: string): Promise<void> {
  complain(null);
  try {
    setPhotograph(side, await readPhotograph(file, name));
  } catch (error) {
    complain(error);
    return;
  }
  refresh();
}

function setPhotograph(side: number, photograph: Photograph | null): void {
  photographs[side] = photograph;
  const canvas = element<HTMLCanvasElement>(`thumbnail${side + 1}`);
  if (photograph) {
    const { bitmap, name } = photograph;
    const scale = Math.min(1, 480 / Math.max(bitmap.width, bitmap.height));
    canvas.width = Math.round(bitmap.width * scale);
    canvas.height = Math.round(bitmap.height * scale);
    canvas.getContext("2d")?.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    canvas.setAttribute("aria-label", `${NAMES[side]} photograph: ${name}`);
    element(`note${side + 1}`).textContent = `${name} · ${sizeNote(photograph)}`;
  } else {
    canvas.width = canvas.height = 0;
    canvas.setAttribute("aria-label", `${NAMES[side]} photograph: none yet`);
    element(`note${side + 1}`).textContent = "";
  }
  swapButton.disabled = !photographs.some(Boolean);
  cameraButton.disabled = !photographs[0];
}

async function useSamples(): Promise<void> {
  complain(null);
  try {
    for (const [side, name] of ["one.jpg", "two.jpg"].entries()) {
      const response = await fetch(`samples/${name}`);
      if (!response.ok) throw new Error(`samples/${name}: ${response.status}`);
      setPhotograph(side, await readPhotograph(await response.blob(), name));
    }
  } catch (error) {
    complain(error);
  }
  refresh();
}

function swap(): void {
  const [first, second] = photographs;
  setPhotograph(0, second);
  setPhotograph(1, first);
  refresh();
}

// Matching

let running = false;
let outdated = false;

/** Matches again; what changes meanwhile is matched afterwards, once. */
async function refresh(): Promise<void> {
  outdated = true;
  if (running || camera || !started) return;
  running = true;
  element("result").classList.add("busy");
  while (outdated && !camera) {
    outdated = false;
    const [first, second] = photographs;
    const chosen = settings();
    if (!first || !second) {
      show(null);
      tell(first || second ? "Choose the other photograph." : "Choose two photographs, or try the samples.");
      continue;
    }
    tell("Matching …");
    try {
      const matched = await client.match({ first, second, settings: chosen, live: false });
      if (!camera) show({ matched, settings: chosen, pair: [first, second] });
    } catch (error) {
      complain(error);
      tell("Nothing was matched.");
    }
  }
  running = false;
  element("result").classList.remove("busy");
}

function show(result: typeof shown): void {
  shown = result;
  for (const id of ["saving", "numbers", "matches"]) element(id).hidden = !result;
  element("overlay").hidden = !result?.matched.warped;
  if (!result) return;
  const { matched, pair, settings: used } = result;
  draw();
  const inliers = matched.inliers.filter(Boolean).length;
  const summary = inWords(matched);
  tell(summary);
  picture.setAttribute("aria-label", `${pair[0].name} and ${pair[1].name}. ${summary}`);
  if (matched.warped) {
    const [under, over] = ["under", "over"].map((id) => element<HTMLCanvasElement>(id));
    under.width = over.width = matched.warped.width;
    under.height = over.height = matched.warped.height;
    under.getContext("2d")?.drawImage(pair[0].bitmap, 0, 0);
    over.getContext("2d")?.drawImage(matched.warped, 0, 0);
  }
  fill("counts", [
    ["Keypoints, first", String(matched.keypoints[0].length)],
    ["Keypoints, second", String(matched.keypoints[1].length)],
    [used.ratio < 1 ? "Mutual matches within the ratio" : "Mutual matches", String(matched.indices.length)],
    ["Inliers", String(inliers)],
    ["Confidence", matched.confidence.toFixed(2)],
  ]);
  const times = Object.entries(matched.milliseconds) as [Stage, number][];
  const total = times.reduce((sum, [, time]) => sum + time, 0);
  fill("times", [
    ...times.map(([stage, time]): [string, string] => [STAGES[stage], inMilliseconds(time)]),
    ["Together", inMilliseconds(total)],
    ["Load the network", inMilliseconds(matched.loading)],
    [`Start LiteRT.js (${threadsInWords()})`, inMilliseconds(started.milliseconds)],
  ]);
}

function inWords({ inliers, indices, geometry, confidence, turn }: Matched): string {
  const agree = `${inliers.filter(Boolean).length} of ${indices.length} matches agree`;
  return isReliable(confidence)
    ? `${agree} on ${GEOMETRY_NAMES[geometry]}${turn ? `, the second turned to the left by ${turn}°` : ""}.`
    : `No reliable match: ${agree}, which may be chance.`;
}

function draw(): void {
  if (!shown) return;
  const [first, second] = shown.pair.map((photograph) => photograph.bitmap);
  drawMatches(picture, first, second, shown.matched, layOut(first, second, room(), devicePixelRatio), false);
}

/** Pixels of the page across the picture. */
function room(): number {
  const style = getComputedStyle(element("result"));
  const inside = element("result").clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  return Math.max(200, inside);
}

function fill(id: string, rows: [string, string][]): void {
  element(id).replaceChildren(
    ...rows.map(([name, value]) => {
      const row = document.createElement("tr");
      const head = document.createElement("th");
      head.scope = "row";
      head.textContent = name;
      row.append(head);
      row.insertCell().textContent = value;
      return row;
    }),
  );
}

function inMilliseconds(time: number): string {
  return `${time < 10 ? time.toFixed(1) : Math.round(time)} ms`;
}

function threadsInWords(): string {
  return started.threads === 1 ? "one thread" : `${started.threads} threads`;
}

// The camera

async function toggleCamera(): Promise<void> {
  complain(null);
  if (camera) {
    camera.close();
    return;
  }
  const [first] = photographs;
  if (!first) return;
  try {
    camera = await Camera.open();
  } catch (error) {
    complain(error);
    return;
  }
  cameraButton.setAttribute("aria-pressed", "true");
  cameraButton.textContent = "Stop camera";
  show(null);
  // A screen reader should not read every frame.
  status.setAttribute("aria-live", "off");
  tell("Matching the camera …");
  try {
    await live(camera, first);
  } catch (error) {
    complain(error);
  }
  camera.close();
  camera = null;
  status.removeAttribute("aria-live");
  cameraButton.setAttribute("aria-pressed", "false");
  cameraButton.textContent = "Camera";
  refresh();
}

/** Matches frame after frame with a photograph until the camera stops. */
async function live(from: Camera, photograph: Photograph): Promise<void> {
  const first = await copyOf(photograph.bitmap, photograph.name, LIVE_SIDE);
  let last = 0; // the first frame may wait for the network
  let rate = 0;
  while (from.isOn) {
    const chosen = settings();
    chosen.keypoints = Math.min(chosen.keypoints, LIVE_KEYPOINTS);
    const second = await copyOf(from.video, "camera", LIVE_SIDE);
    const matched = await client.match({ first, second, settings: chosen, live: true });
    const layout = layOut(first.bitmap, second.bitmap, room(), devicePixelRatio);
    drawMatches(picture, first.bitmap, second.bitmap, matched, layout, matched.geometry === "homography");
    second.bitmap.close();
    picture.hidden = false;
    const now = performance.now();
    const current = last ? 1000 / (now - last) : 0;
    rate = rate ? 0.8 * rate + 0.2 * current : current;
    last = now;
    tell(`${rate.toFixed(1)} frames a second · ${inWords(matched)}`);
    picture.setAttribute("aria-label", `${first.name} and the live view of the camera`);
  }
}

// Saving

function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function savePicture(): void {
  if (!shown) return;
  const [first, second] = shown.pair.map((photograph) => photograph.bitmap);
  const canvas = document.createElement("canvas");
  drawMatches(canvas, first, second, shown.matched, layOut(first, second, Infinity, 1), false);
  canvas.toBlob((blob) => blob && save(blob, "matches.png"), "image/png");
}

function saveMatches(): void {
  if (!shown) return;
  const record = matchRecord(...shown.pair, shown.matched, shown.settings, started.manifest);
  save(new Blob([`${JSON.stringify(record)}\n`], { type: "application/json" }), "matches.json");
}

// Setting up

function showValues(): void {
  element("keypoints-value").textContent = keypointsSlider.value;
  const ratio = Number(ratioSlider.value);
  element("ratio-value").textContent = ratio < 1 ? ratio.toFixed(2) : "off";
  element("opacity-value").textContent = `${opacitySlider.value} %`;
  element("over").style.opacity = String(Number(opacitySlider.value) / 100);
}

function listNetworks({ networks }: Manifest): void {
  for (const { file, name, precision, bytes } of networks) {
    networkChoice.add(new Option(`${name} · ${precision} · ${(bytes / 1e6).toFixed(1)} MB`, file));
  }
}

/** Resolves once the service worker sees what the page fetches, or cannot. */
async function offlineReady(): Promise<void> {
  if (!navigator.serviceWorker) return;
  try {
    await navigator.serviceWorker.register("sw.js");
    if (navigator.serviceWorker.controller) return;
    await Promise.race([
      new Promise((resolve) => navigator.serviceWorker.addEventListener("controllerchange", resolve)),
      new Promise((resolve) => setTimeout(resolve, 3000)),
    ]);
  } catch (error) {
    console.warn("no service worker:", error); // the page works, but not offline
    return;
  }
  // The first visit to a host that does not isolate pages; the service worker does.
  if (navigator.serviceWorker.controller && !self.crossOriginIsolated) {
    location.reload();
    await new Promise(() => {});
  }
}

async function start(): Promise<void> {
  await offlineReady();
  client = new Client("worker.js");
  try {
    started = await client.start();
    listNetworks(started.manifest);
    await refresh();
  } catch (error) {
    complain(error);
    tell("The networks could not be loaded.");
  }
}

for (const slider of sliders) slider.addEventListener("input", showValues);
for (const control of [keypointsSlider, ratioSlider, geometryChoice, networkChoice]) {
  control.addEventListener(control instanceof HTMLInputElement ? "input" : "change", () => refresh());
}
for (const card of document.querySelectorAll<HTMLElement>(".photograph")) {
  const side = Number(card.dataset.side);
  const input = card.querySelector("input");
  input?.addEventListener("change", () => {
    const file = input.files?.[0];
    if (file) choose(side, file, file.name);
    input.value = ""; // so that the same file can be chosen again
  });
  card.addEventListener("dragover", (event) => {
    event.preventDefault();
    card.classList.add("dropping");
  });
  card.addEventListener("dragleave", () => card.classList.remove("dropping"));
  card.addEventListener("drop", (event) => {
    event.preventDefault();
    card.classList.remove("dropping");
    const file = event.dataTransfer?.files[0];
    if (file) choose(side, file, file.name);
  });
}
element("samples").addEventListener("click", useSamples);
swapButton.addEventListener("click", swap);
cameraButton.addEventListener("click", toggleCamera);
element("save-picture").addEventListener("click", savePicture);
element("save-matches").addEventListener("click", saveMatches);
document.querySelector("form")?.addEventListener("submit", (event) => event.preventDefault());
addEventListener("resize", draw);
showValues();

start();
