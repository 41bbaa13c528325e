// The page that a one-time address answers with: keeps the key for this host and port, and goes on.
localStorage.setItem("naq-studio", document.documentElement.dataset.key);
location.replace("/");
