// Builds the page into the package that serves it. Paths are relative, so that it works below any prefix.
import { defineConfig, type Plugin } from "vite";

// KaTeX names its fonts in three formats; every browser that runs this page reads the first.
const firstFontFormat: Plugin = {
  name: "first-font-format",
  enforce: "pre",
  transform(code, id) {
    if (!id.includes("katex") || !id.includes(".css")) return null;
    return code.replace(/,\s*url\([^)]*\.(?:woff|ttf)\)\s*format\("(?:woff|truetype)"\)/g, "");
  },
};

export default defineConfig({
  base: "./",
  plugins: [firstFontFormat],
  worker: { format: "es" },
  build: {
    outDir: "../src/heliograph/server/page",
    emptyOutDir: true,
    target: "es2022",
    // The page may show nothing that is no file of it, so nothing becomes a data: address.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: { fileName: "licenses.md" },
    chunkSizeWarningLimit: 700,
  },
  server: { proxy: { "^/(?!src|node_modules|@|page)": "http://127.0.0.1:9621" } },
});
