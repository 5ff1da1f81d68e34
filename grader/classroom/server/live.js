// Follows the attempts that have not ended; the page is loaded again when one has.
for (const place of [...document.querySelectorAll("[data-events]")].slice(0, 3)) {
  const source = new EventSource(place.dataset.events);
  source.addEventListener("state", (event) => {
    const news = JSON.parse(event.data);
    place.textContent = news.words;
    if (news.ended) {
      source.close();
      location.reload();
    }
  });
}
