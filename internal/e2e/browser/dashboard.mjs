// Drives the dashboard as a person would. Talks with the Go test that starts it by lines
// on stdout and stdin: it prints "kill" when a server should die. Exits non-zero with the
// first claim that does not hold.
import { browser, out } from "./launch.mjs";
import { createInterface } from "node:readline";

const { WHORL_URL: base, WHORL_BLOCKS: blocks } = process.env;
const stdin = createInterface({ input: process.stdin });
const ask = (line) => new Promise((answer) => {
  stdin.once("line", answer);
  console.log(line);
});

const fail = async (page, why) => {
  await page.screenshot({ path: `${out}/failure.png`, fullPage: true });
  throw new Error(why);
};
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
const problems = [];
page.on("pageerror", (e) => problems.push(`script error: ${e.message}`));
page.on("console", (m) => m.type() === "error" && problems.push(`console: ${m.text()}`));
page.on("request", (r) => {
  const u = r.url();
  if (!u.startsWith(base) && !u.startsWith(base.replace("http", "ws")) && !u.startsWith("data:")) problems.push(`request to ${u}`);
});

try {
  // Every block is green on the overview.
  await page.goto(base, { waitUntil: "domcontentloaded" });
  const cells = (state) => page.locator(`[data-testid="block"][data-state="${state}"]`);
  await page.waitForFunction((n) => document.querySelectorAll('[data-testid="block"][data-state="online"]').length >= n, Number(blocks), { timeout: 30_000 })
    .catch(() => fail(page, `not all of ${blocks} blocks are green`));
  await page.screenshot({ path: `${out}/overview.png`, fullPage: true });

  // The model page, reached by its link.
  await page.locator('a[href^="/models/"]').first().click();
  await page.waitForURL("**/models/**");
  if ((await cells("online").count()) < Number(blocks)) await fail(page, "the model page lacks blocks");
  await page.screenshot({ path: `${out}/model.png`, fullPage: true });

  // The playground: two turns of one conversation.
  const play = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  play.on("pageerror", (e) => problems.push(`playground script error: ${e.message}`));
  await play.goto(`${base}/play`, { waitUntil: "domcontentloaded" });
  await play.locator("#play-tokens").fill("40"); // the toy's context is short
  if (!(await play.locator("#play-curl").textContent()).includes('"max_tokens":40')) await fail(play, "the curl command is not what the page would send");
  for (const [turn, text] of ["Hello, who are you?", "Say it again, shorter."].entries()) {
    await play.locator('[data-testid="prompt"]').fill(text);
    await play.locator('[data-testid="prompt"]').press("Enter");
    const answer = play.locator('[data-testid="answer"]').nth(turn);
    await answer.waitFor({ timeout: 30_000 });
    await play.waitForFunction((n) => {
      const all = document.querySelectorAll('[data-testid="answer"]');
      return all[n] && all[n].dataset.done === "true" && !all[n].dataset.error && all[n].textContent.trim().length > 0;
    }, turn, { timeout: 120_000 }).catch(() => fail(play, `turn ${turn + 1} got no answer`));
  }
  await play.screenshot({ path: `${out}/playground.png`, fullPage: true });

  // Past the end of the model's context the conversation goes on: the oldest turns go, which a line says.
  const gone = play.locator("#play-log .hint", { hasText: "were let go" });
  for (let turn = 2; (await gone.count()) === 0; turn++) {
    if (turn === 20) await fail(play, "the conversation never came to its end");
    await play.locator('[data-testid="prompt"]').fill(`And once more, in other words, number ${turn}: ${"why ".repeat(20)}`);
    await play.locator('[data-testid="prompt"]').press("Enter");
    await play.waitForFunction((n) => document.querySelectorAll('[data-testid="answer"]')[n]?.dataset.done === "true", turn, { timeout: 120_000 })
      .catch(() => fail(play, `turn ${turn + 1} got no answer`));
    if (await play.locator('[data-testid="answer"][data-error]').count()) await fail(play, `turn ${turn + 1} failed`);
  }

  // A server dies: its blocks turn red on the page that is still open, without a reload.
  await page.bringToFront();
  await page.evaluate(() => { window.stillTheSamePage = true; });
  const died = await ask("kill");
  await page.waitForFunction((n) => document.querySelectorAll('[data-testid="block"][data-state="missing"]').length >= n, Number(died), { timeout: 120_000 })
    .catch(() => fail(page, `fewer than ${died} blocks turned red`));
  if (!(await page.evaluate(() => window.stillTheSamePage === true))) await fail(page, "the page was reloaded");
  await page.screenshot({ path: `${out}/model-broken.png`, fullPage: true });
  await page.goto(base, { waitUntil: "domcontentloaded" });
  await page.screenshot({ path: `${out}/overview-broken.png`, fullPage: true });

  // A phone, and dark colours.
  const phone = await browser.newPage({ viewport: { width: 360, height: 780 }, colorScheme: "dark" });
  await phone.goto(base, { waitUntil: "domcontentloaded" });
  const wide = await phone.evaluate(() => document.documentElement.scrollWidth);
  if (wide > 360) await fail(phone, `the page is ${wide} px wide on a phone of 360`);
  await phone.screenshot({ path: `${out}/overview-phone-dark.png`, fullPage: true });

  if (problems.length) throw new Error(problems.join("\n"));
  console.log("ok");
} finally {
  stdin.close();
  process.stdin.destroy();
  await browser.close();
}
