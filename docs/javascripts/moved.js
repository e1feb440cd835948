// The guide became one page for each question: a link to a part of it goes on to the page that has it now.
if (/\/guide(\/|\.html)?$/.test(location.pathname) && location.hash) {
  const link = document.getElementById(location.hash.slice(1))?.nextElementSibling;
  if (link instanceof HTMLAnchorElement) location.replace(link.href);
}
