// Send the token, which the server turns into a cookie, and open the console.

const form = document.querySelector("form");
const input = document.getElementById("token");
const trouble = document.getElementById("trouble");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  trouble.hidden = true;
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const answer = await fetch("login", {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-RMQ-Request": "page" },
      body: JSON.stringify({ token: input.value }),
    });
    if (answer.ok) {
      location.replace("./");
      return;
    }
    const { detail } = await answer.json().catch(() => ({}));
    tell(typeof detail === "string" ? `${detail[0].toUpperCase()}${detail.slice(1)}.` : `The server answered ${answer.status}.`);
  } catch {
    tell("The server cannot be reached.");
  } finally {
    button.disabled = false;
  }
});

function tell(text) {
  trouble.textContent = text;
  trouble.hidden = false;
  input.select();
}
