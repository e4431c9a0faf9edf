// Looks at the admin listener's page about keys as an operator would, while a caller asks. Exits
// non-zero with the first claim that does not hold.
import { browser, out } from "./launch.mjs";

const { WHORL_URL: base, WHORL_ADMIN: admin, WHORL_ALICE: secret, WHORL_TOKEN: token } = process.env;
const problems = [];
const fail = async (page, why) => {
  await page.screenshot({ path: `${out}/keys-failure.png` });
  throw new Error(why);
};
const open = async (width) => {
  const page = await browser.newPage({ viewport: { width, height: 900 } });
  page.on("pageerror", (e) => problems.push(`script error: ${e.message}`));
  page.on("request", (r) => r.url().startsWith(admin) || problems.push(`request to ${r.url()}`));
  await page.goto(admin, { waitUntil: "domcontentloaded" });
  await page.locator('a[href="/keys"]').click();
  await page.waitForURL("**/keys");
  return page;
};
// cells are what the row of a key shows.
const cells = (page, name) => page.locator(`[data-testid="key"][data-name="${name}"]`).locator("th, td").allTextContents();
const until = async (page, name, ok) => {
  for (const end = Date.now() + 30_000; Date.now() < end; await page.waitForTimeout(100)) {
    const row = await cells(page, name);
    if (row.length && ok(row)) return row;
  }
  return fail(page, `${name}: ${await cells(page, name)}`);
};

try {
  // Without the token the page says what it needs, and shows nothing.
  const page = await open(1280);
  const note = page.locator('[data-testid="keys-note"]');
  await note.waitFor();
  if (!(await note.textContent()).includes("token")) await fail(page, `the note: ${await note.textContent()}`);
  if (await page.locator('[data-testid="key"]').count()) await fail(page, "keys are shown to whoever has no token");
  await page.locator("#keys-token").fill(token);
  await page.locator("#keys-token").press("Enter");

  await until(page, "bob", (row) => row[2] === "0" && row[6] === "none");
  await until(page, "<b>alice</b>", (row) => row[2] === "0" && row[6].includes("60 requests a minute"));
  const answer = await fetch(`${base}/v1/completions`, {
    method: "POST", headers: { Authorization: `Bearer ${secret}`, "Content-Type": "application/json" },
    body: JSON.stringify({ prompt: "Once upon a time", max_tokens: 7, ignore_eos: true }),
  });
  const used = (await answer.json()).usage;
  if (!answer.ok || used.completion_tokens !== 7) await fail(page, `status ${answer.status}`);
  // The open page tells of it by itself.
  await until(page, "<b>alice</b>", (row) => row[2] === "1" && row[3] === String(used.prompt_tokens) && row[4] === "7" && row[5] === "0");
  await until(page, "bob", (row) => row[2] === "0");
  if ((await page.content()).includes(secret)) await fail(page, "the page has a secret");
  await page.screenshot({ path: `${out}/keys.png` });

  // It fits a telephone.
  const narrow = await open(360);
  const wide = await narrow.evaluate(() => document.documentElement.scrollWidth);
  if (wide > 360) await fail(narrow, `the page is ${wide} px wide on a screen of 360`);
  if (problems.length) throw new Error(problems.join("\n"));
} finally {
  await browser.close();
}
