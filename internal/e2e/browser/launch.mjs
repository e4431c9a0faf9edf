// The browser of all scripts here, and the folder for their pictures.
import { chromium } from "playwright-core";
import { mkdirSync } from "node:fs";

export const { WHORL_ARTIFACTS: out } = process.env;
mkdirSync(out, { recursive: true });
export const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
