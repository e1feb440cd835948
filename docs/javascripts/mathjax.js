// Formulas of pages come from pymdownx.arithmatex as \(...\), those of notebooks as $...$; nothing else is looked at.
window.MathJax = {
  tex: {
    inlineMath: [["\\(", "\\)"], ["$", "$"]],
    displayMath: [["\\[", "\\]"], ["$$", "$$"]],
    processEscapes: true,
  },
  options: { ignoreHtmlClass: ".*|", processHtmlClass: "arithmatex|jp-MarkdownOutput|jp-RenderedMarkdown" },
};
