// What scripts/pictures shows of a browser. OUT has report.html, demo_sessions.heapsnapshot, and url: where the live
// page is; MODULES has playwright-core.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const { MODULES: modules, OUT: out } = process.env;
const { chromium } = createRequire(`${modules}/`)("playwright-core");
const port = 20000 + Math.floor(Math.random() * 20000);
const browser = await chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: ["--no-sandbox", `--remote-debugging-port=${port}`, "--remote-allow-origins=*"],
});
const screen = { viewport: { width: 1280, height: 860 } };

const report = await browser.newPage(screen);
await report.goto(`file://${out}/report.html`);
await report.waitForTimeout(500);
await report.screenshot({ path: `${out}/report.png` });
await report.setViewportSize({ width: 1280, height: 12000 }); // nothing lies below the navigation
await report.waitForTimeout(500);
await report.locator("#groups").screenshot({ path: `${out}/report-processes.png` });

const live = await browser.newPage(screen);
await live.goto(readFileSync(`${out}/url`, "utf8"));
await live.waitForTimeout(15000); // its lines
await live.screenshot({ path: `${out}/web.png` });

// The tools look at some page, here at the report; what they show is a file.
const pages = await (await fetch(`http://127.0.0.1:${port}/json/list`)).json();
const { id } = pages.find(({ url }) => url.endsWith("report.html"));
const tools = await browser.newPage({ viewport: { width: 1280, height: 620 } });
await tools.goto("devtools://devtools/bundled/devtools_app.html" +
    `?ws=127.0.0.1:${port}/devtools/page/${id}&panel=heap-profiler`);
await tools.setInputFiles("input[type=file]", `${out}/demo_sessions.heapsnapshot`);
await tools.waitForTimeout(3000);
await tools.mouse.click(77, 140); // the file, in the list at the left
await tools.getByText("Constructor").first().waitFor();
await tools.waitForTimeout(2000);
await tools.mouse.click(300, 86); // the largest kind, and what it is in
await tools.keyboard.press("ArrowRight");
await tools.waitForTimeout(500);
await tools.keyboard.press("ArrowDown");
await tools.waitForTimeout(1000);
await tools.screenshot({ path: `${out}/heap.png` });
await browser.close();
