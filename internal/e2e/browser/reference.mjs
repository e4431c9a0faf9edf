// Reads the page about the API of both listeners as a person would, and sends requests from it. Exits
// non-zero with the first claim that does not hold.
import { browser, out } from "./launch.mjs";

const { WHORL_URL: base, WHORL_ADMIN: admin } = process.env;
const problems = [];
const open = async (url) => {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  page.on("pageerror", (e) => problems.push(`script error: ${e.message}`));
  page.on("console", (m) => m.type() === "error" && problems.push(`console: ${m.text()}`));
  page.on("request", (r) => r.url().startsWith(url) || problems.push(`request to ${r.url()}`));
  await page.goto(`${url}/reference`, { waitUntil: "domcontentloaded" });
  return page;
};
const fail = async (page, why) => {
  await page.screenshot({ path: `${out}/reference-failure.png` });
  throw new Error(why);
};
// send fills a route's form, sends it and gives what came.
const send = async (page, id, fill = {}) => {
  const route = page.locator(`#${id}`);
  if (!(await route.evaluate((d) => d.open))) await route.locator("summary").first().click();
  for (const [name, value] of Object.entries(fill)) await route.locator(`[name="${name}"]`).fill(value);
  await route.locator("button[type=submit]").click();
  const outcome = route.locator(".outcome");
  await page.waitForFunction((el) => /^\d{3} /.test(el.textContent) || el.textContent.startsWith("No answer"), await outcome.elementHandle(), { timeout: 30_000 });
  await page.waitForFunction((el) => el.hidden, await route.locator(".stop").elementHandle(), { timeout: 30_000 });
  return { outcome: await outcome.textContent(), body: await route.locator(".got").textContent() };
};

try {
  const page = await open(base);
  await page.locator("#ref-find").fill("completions");
  const shown = await page.locator(".route:visible").count();
  if (shown < 1 || shown > 4) await fail(page, `${shown} routes have the word`);
  const answer = await send(page, "createCompletion", { body: JSON.stringify({ prompt: "a", max_tokens: 3 }) });
  if (!answer.outcome.startsWith("200 ") || JSON.parse(answer.body).choices.length !== 1) await fail(page, `a completion: ${JSON.stringify(answer)}`);
  const curl = await page.locator("#createCompletion .sent").textContent();
  if (!curl.includes("curl -N -X POST") || !curl.includes("/v1/completions")) await fail(page, `curl: ${curl}`);
  await page.locator("#ref-find").fill("");
  if (await page.locator("#drainNode form").count()) await fail(page, "the public page offers to drain");
  await page.screenshot({ path: `${out}/reference.png` });

  // Without scripts it can be read.
  const plain = await (await browser.newContext({ javaScriptEnabled: false })).newPage();
  await plain.goto(`${base}/reference`);
  await plain.locator("#getNode summary").first().click();
  if (!(await plain.locator("#getNode").textContent()).includes("This node")) await fail(plain, "it cannot be read without scripts");

  // It fits a telephone.
  const narrow = await browser.newPage({ viewport: { width: 360, height: 740 } });
  await narrow.goto(`${base}/reference`);
  const wide = await narrow.evaluate(() => document.documentElement.scrollWidth);
  if (wide > 360) await fail(narrow, `the page is ${wide} px wide on a screen of 360`);

  // The admin listener's page controls the node.
  const control = await open(admin);
  const drained = await send(control, "drainNode", { body: "{\"reason\": \"a test\"}", wait: "20s" });
  if (!drained.outcome.startsWith("200 ") || JSON.parse(drained.body).state !== "done") await fail(control, `drain: ${JSON.stringify(drained)}`);
  const node = await send(control, "getNode");
  if (JSON.parse(node.body).state !== "draining") await fail(control, `node: ${node.body}`);
  const bad = await send(control, "getBlock", { index: "77" });
  if (!bad.outcome.startsWith("404 ")) await fail(control, `a block that is not there: ${bad.outcome}`);
  const wrong = problems.filter((p) => !p.includes("404")); // the browser logs the answer that was asked for
  if (wrong.length) throw new Error(wrong.join("\n"));
} finally {
  await browser.close();
}
