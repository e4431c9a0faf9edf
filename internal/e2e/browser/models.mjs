// Picks one model after the other in the playground, as a person would, and asks each. Exits non-zero
// with the first claim that does not hold.
import { browser, out } from "./launch.mjs";

const { WHORL_URL: base } = process.env;
const [toy, small] = ["toy", "SmolLM2-135M-Instruct.Q4_1"];
try {
  const problems = [];
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  page.on("pageerror", (e) => problems.push(`script error: ${e.message}`));
  page.on("request", (r) => r.url().startsWith(base) || problems.push(`request to ${r.url()}`));
  await page.goto(`${base}/play`, { waitUntil: "domcontentloaded" });
  const picker = page.locator('[data-testid="model-select"]');
  const offered = await picker.locator("option").evaluateAll((all) => all.map((o) => o.value));
  for (const model of [toy, small]) if (!offered.includes(model)) throw new Error(`the picker offers ${offered}`);
  for (const model of [toy, small, toy]) {
    await picker.selectOption(model);
    await page.locator("#play-tokens").fill("16");
    const curl = await page.locator("#play-curl").textContent();
    if (!curl.includes(`"model":"${model}"`)) throw new Error(`with ${model} picked, the curl command is ${curl}`);
    const before = await page.locator('[data-testid="answer"]').count();
    await page.locator('[data-testid="prompt"]').fill("Hello, who are you?");
    await page.locator('[data-testid="prompt"]').press("Enter");
    await page.waitForFunction((n) => {
      const all = document.querySelectorAll('[data-testid="answer"]');
      return all.length > 0 && all.length !== n && all[all.length - 1].dataset.done === "true";
    }, before, { timeout: 120_000 });
    const last = page.locator('[data-testid="answer"]').last();
    if (await last.getAttribute("data-error")) throw new Error(`${model}: ${await last.textContent()}`);
    await page.screenshot({ path: `${out}/models-${model}.png` });
  }
  if (problems.length) throw new Error(problems.join("\n"));
} finally {
  await browser.close();
}
