// Asks every few seconds where the attempts stand that have not ended; the page is loaded again when one has.
const places = [...document.querySelectorAll("[data-attempt]")];
async function ask() {
  const answer = await fetch("/api/attempts").catch(() => null);
  for (const news of answer && answer.ok ? await answer.json() : []) {
    const place = places.find((one) => one.dataset.attempt === String(news.id));
    if (place) place.textContent = news.words;
    if (place && news.ended) location.reload();
  }
}
if (places.length) setInterval(ask, 3000);
