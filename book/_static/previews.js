// Shows what book/_ext/previews.py collected for the links of a page: its script calls
// showPreviews({address: HTML}). The theme's Bootstrap places them. A preview can be pointed at and
// scrolled, stays until one leaves it, and goes with Escape.
function showPreviews(previews) {
  if (matchMedia("(hover: none)").matches) return;
  const others = ["headerlink", "sd-stretched-link", "name", "viewcode-link", "viewcode-back"];
  for (const link of document.querySelectorAll("article.bd-article a[href]")) {
    const content = previews[link.getAttribute("href")];
    if (content && !others.some((name) => link.classList.contains(name))) addPreview(link, content);
  }
}

function addPreview(link, html) {
  let popover = null;
  let timer = 0;
  const later = (act, wait) => {
    clearTimeout(timer);
    timer = setTimeout(act, wait);
  };
  const hide = () => popover && popover.hide();
  const show = () => {
    if (popover === null) {
      const content = document.createElement("div");
      content.innerHTML = html;
      // ids stay unique on the page, and marks that link a heading to itself are of no use here
      content.querySelectorAll("[id]").forEach((element) => element.removeAttribute("id"));
      content.querySelectorAll(".headerlink, .eqno").forEach((element) => element.remove());
      popover = new bootstrap.Popover(link, {
        content, html: true, sanitize: false, trigger: "manual", container: "body",
        placement: "auto", customClass: "preview",
      });
      link.addEventListener("inserted.bs.popover", () => {
        const box = document.getElementById(link.getAttribute("aria-describedby"));
        if (!box) return;
        box.addEventListener("mouseenter", () => clearTimeout(timer));
        box.addEventListener("mouseleave", () => later(hide, 150));
        if (window.MathJax) MathJax.typesetPromise([box]);
        setTimeout(() => popover.update(), 200); // formulas have changed its size
      });
    }
    document.querySelectorAll(".popover.preview").forEach((other) => other.remove());
    popover.show();
  };
  link.addEventListener("mouseenter", () => later(show, 300));
  link.addEventListener("mouseleave", () => later(hide, 150));
  link.addEventListener("focus", () => link.matches(":focus-visible") && later(show, 300));
  link.addEventListener("blur", () => later(hide, 0));
  document.addEventListener("keydown", (event) => event.key === "Escape" && later(hide, 0));
}
