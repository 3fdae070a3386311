// build.mjs MODULES FILE [live]: builds the page of reports from src/ into FILE, or the live page: one file, with
// a policy that allows only this script and this style. MODULES has the packages of package-lock.json
// (scripts/setup page). The same sources give the same bytes.

import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const [modules, out, name] = process.argv.slice(2);
const [entry, sheet, frame, more, places] = name === 'live' ? ['src/live.js', 'src/live.css', 'src/live.html', ["connect-src 'self'", 'img-src data:'], 0]
  : ['src/main.js', 'src/page.css', 'src/template.html', [], 1];
const { build } = createRequire(`${modules}/`)('esbuild');

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const read = (path) => readFileSync(path, 'utf8');
const sha256 = (text) => `'sha256-${createHash('sha256').update(text, 'utf8').digest('base64')}'`;

const common = { bundle: true, minify: true, write: false, logLevel: 'warning', charset: 'ascii', legalComments: 'none', metafile: true, nodePaths: [modules] };
const script = await build({ ...common, entryPoints: [here(entry)], format: 'iife', target: ['chrome100', 'firefox100', 'safari15'] });
const style = await build({ ...common, entryPoints: [here(sheet)], target: ['chrome100', 'firefox100', 'safari15'] });

// In a script or style element, `</` could end it.
const code = script.outputFiles[0].text.trimEnd().replaceAll('</', '<\\/');
const css = style.outputFiles[0].text.trimEnd();
if (css.includes('</') || code.includes('<!--')) throw new Error('the script or the style would end early');

// The packages that are in the script, and the text of their licences.
const packages = [...new Set(Object.keys(script.metafile.inputs)
  .map((file) => file.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1]).filter(Boolean))].sort();
const licences = packages.map((name) => {
  const { version, license } = JSON.parse(read(`${modules}/${name}/package.json`));
  return `${name} ${version} (${license})\n\n${read(`${modules}/${name}/LICENSE`).trim()}`;
});
const text = ['This page is part of sonde (Apache-2.0). It contains parts of these libraries:', ...licences].join('\n\n')
  .replaceAll('--', '- -');

const policy = ["default-src 'none'", `script-src ${sha256(code)}`, `style-src ${sha256(css)}`, ...more, "base-uri 'none'", "form-action 'none'",
  "require-trusted-types-for 'script'", "trusted-types 'none'"].join('; ');

const page = read(here(frame))
  .replace('@CSP@', () => policy).replace('@LICENCES@', () => text).replace('@STYLE@', () => css).replace('@SCRIPT@', () => code);
if (page.split('@SONDE-DATA@').length !== 1 + places) throw new Error(`the page has not ${places} places for the data`);
writeFileSync(out, page);
