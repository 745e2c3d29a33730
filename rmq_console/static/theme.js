// The colour scheme: that of the surrounding Airflow page, or else the system's preference.

const TAKEN = {
  "--bg": "--chakra-colors-bg",
  "--fg": "--chakra-colors-fg",
  "--fg-muted": "--chakra-colors-fg-muted",
  "--brand": "--chakra-colors-brand-solid",
  "--brand-fg": "--chakra-colors-brand-fg",
  "--font": "--chakra-fonts-body",
};
const systemDark = matchMedia("(prefers-color-scheme: dark)");

/** The surrounding window if it is Airflow's; null if this page is opened alone or inside a foreign page. */
export function airflow() {
  try {
    return window.parent !== window && window.parent.document ? window.parent : null;
  } catch {
    return null;
  }
}

function apply() {
  const outer = airflow()?.document.documentElement;
  const dark = outer ? outer.classList.contains("dark") : systemDark.matches;
  const root = document.documentElement;
  root.dataset.theme = dark ? "dark" : "light";
  if (!outer) return;
  const theirs = window.parent.getComputedStyle(outer);
  for (const [ours, name] of Object.entries(TAKEN)) {
    const value = theirs.getPropertyValue(name).trim();
    if (value) root.style.setProperty(ours, value);
  }
}

export function followTheme() {
  apply();
  systemDark.addEventListener("change", apply);
  const outer = airflow()?.document.documentElement;
  if (outer) new MutationObserver(apply).observe(outer, { attributes: true, attributeFilter: ["class", "style"] });
}
