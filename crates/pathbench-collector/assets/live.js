// Replaces the rows of running measurements every 2 s. Without this script the page shows them as of its loading.
(function () {
  "use strict";
  var body = document.getElementById("live-rows");
  var note = document.getElementById("live-note");
  if (!body) { return; }
  var address = body.getAttribute("data-address");

  function cell(row, text, isNumber) {
    var td = document.createElement("td");
    td.textContent = text;
    if (isNumber) { td.className = "n"; }
    row.appendChild(td);
    return td;
  }

  function rate(mbps) {
    if (mbps >= 1000) { return (mbps / 1000).toFixed(2) + " Gbit/s"; }
    return (mbps >= 1 ? mbps.toFixed(1) + " Mbit/s" : (mbps * 1000).toFixed(0) + " kbit/s");
  }

  function show(live) {
    var rows = document.createDocumentFragment();
    live.running.forEach(function (one) {
      var row = document.createElement("tr");
      var head = document.createElement("th");
      head.scope = "row";
      head.textContent = one.agent;
      row.appendChild(head);
      cell(row, one.experiment || "–");
      cell(row, one.server || "–");
      cell(row, (one.transport || "–") + (one.pattern ? ", " + one.pattern : ""));
      cell(row, one.runs_done + " of " + one.runs_planned, true);
      var paths = document.createElement("ul");
      paths.className = "live-paths";
      one.paths.forEach(function (path) {
        var item = document.createElement("li");
        item.textContent = path.name + ": " + rate(path.goodput_mbps);
        paths.appendChild(item);
      });
      cell(row, "").appendChild(paths);
      rows.appendChild(row);
    });
    if (live.running.length === 0) {
      var row = document.createElement("tr");
      cell(row, "No measurement is running.").colSpan = 6;
      rows.appendChild(row);
    }
    body.replaceChildren(rows);
    note.textContent = "Updated " + new Date(live.now_ms).toLocaleTimeString() + ", every 2 s.";
  }

  function again() {
    if (document.hidden) { setTimeout(again, 2000); return; }
    fetch(address, { headers: { accept: "application/json" } })
      .then(function (answer) {
        if (!answer.ok) { throw new Error("status " + answer.status); }
        return answer.json();
      })
      .then(show)
      .catch(function (error) { note.textContent = "Not updated: " + error.message + "."; })
      .finally(function () { setTimeout(again, 2000); });
  }
  again();
})();
