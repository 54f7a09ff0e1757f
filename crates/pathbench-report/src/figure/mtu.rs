//! Packet sizes over time, path by path: MSS and path MTU, and beside them what the path carried, what had to be sent
//! again and how far the retransmission timer had backed off.

mod panel;
mod trace;

use super::axis::{self, Axis, TimeScale};
use super::legend::{self, Mark};
use super::{Selection, WIDTH, event, lettering};
use crate::ResultSet;
use crate::narrative::{self, Happening};
use crate::palette::{ALARM, INK, MUTED};
use crate::quantity::{counted, percent, rate};
use crate::series::{self, Grid};
use crate::svg::{Anchor, Area, Stroke, Svg, TextStyle};
use crate::view::{GroupView, View, name_of, variant_text};
use panel::{Scales, Strip};
use pathbench_record::document::RunRecord;
use trace::Trace;

const LEFT: f64 = 58.0;
/// Room for the last MSS of each path.
const RIGHT: f64 = 52.0;
const COLUMN_GAP: f64 = 48.0;
/// Title, and what was found out about paths that carried nothing.
const TITLE_HEIGHT: f64 = 22.0;
const REMARK: f64 = 14.0;
/// Between the panels of one row and the next.
const BELOW: f64 = 20.0;
/// More panels than this and nobody looks at them.
const MOST_PANELS: usize = 24;
/// Windows of what arrived and what was sent again.
const MOST_WINDOWS: usize = 200;

/// MSS, path MTU, what arrived, retransmissions and back-off of every path over time, for the run that stands for each
/// label. `None` when no shown run has anything to tell of packet sizes: they are the same on all paths, do not
/// change, and nobody counted packets.
pub fn mtu(set: &ResultSet, selection: &Selection) -> Option<Svg> {
    mtu_of(&View::new(set), selection)
}

pub(crate) fn mtu_of(view: &View, selection: &Selection) -> Option<Svg> {
    let sheet = Sheet::new(view, selection)?;
    let (_, height) = sheet.draw(view, 10.0);
    Some(sheet.draw(view, height).0)
}

/// The run that stands for a label.
struct Panel {
    name: String,
    facts: String,
    /// Why paths carried nothing.
    remarks: Vec<String>,
    happenings: Vec<Happening>,
    trace: Trace,
}

struct Sheet {
    panels: Vec<Panel>,
    strips: Vec<Strip>,
    scales: Scales,
    columns: usize,
    plot_width: f64,
    title: String,
    subtitle: String,
    caption: Vec<String>,
}

fn runs<'a>(
    view: &'a View<'a>,
    selection: &'a Selection,
) -> impl Iterator<Item = (&'a GroupView<'a>, &'a RunRecord)> {
    let groups = view.groups.iter().filter(|group| selection.has(group));
    groups.filter_map(|group| Some((group, group.representative()?)))
}

fn panel(view: &View, (group, run): (&GroupView, &RunRecord), selection: &Selection, grid: Grid) -> Panel {
    let data = view.data(run);
    let name = match (selection.variant.is_some(), selection.pattern.is_some()) {
        (true, _) => group.label.to_owned(),
        (false, true) => name_of(group.label, None, group.variant),
        (false, false) => group.name(),
    };
    let shares = run.paths.iter().filter(|_| run.paths.len() > 1);
    let shares = shares.map(|path| format!("{} {}", path.name, percent(path.share)));
    let facts: Vec<String> = run.goodput_mbps.map(rate).into_iter().chain(shares).collect();
    let remarks = run.diagnoses.iter().filter(|one| narrative::diagnosis::is_trouble(one));
    Panel {
        name,
        facts: facts.join(" · "),
        remarks: remarks.map(narrative::diagnosis::finding).take(2).collect(),
        happenings: narrative::size_happenings(data),
        trace: Trace::of(run, data, grid, &view.paths),
    }
}

impl Sheet {
    fn new(view: &View, selection: &Selection) -> Option<Self> {
        runs(view, selection).find(|(_, run)| trace::is_telling(run, view.data(run)))?;
        let end_ms = runs(view, selection).map(|(_, run)| series::end_ms(view.data(run))).fold(0.0, f64::max);
        let grid = Grid::covering(end_ms, MOST_WINDOWS);
        let all = runs(view, selection).count();
        let panels: Vec<Panel> =
            runs(view, selection).take(MOST_PANELS).map(|one| panel(view, one, selection, grid)).collect();
        let columns = if panels.len() > 1 { 2 } else { 1 };
        let gaps = (columns - 1) as f64 * (COLUMN_GAP + RIGHT);
        let plot_width = (WIDTH - LEFT - RIGHT - gaps) / columns as f64;
        let traces = || panels.iter().map(|panel| &panel.trace);
        let peak = traces().map(Trace::peak_mbps).fold(0.0, f64::max);
        let rate_unit = axis::rate_unit(peak);
        let resent = traces().map(Trace::peak_resent_kb).fold(0.0, f64::max);
        let backoff = traces().map(Trace::peak_backoff).max().unwrap_or(0);
        let scales = Scales {
            time: TimeScale::until(grid.until_ms(), plot_width),
            size: Axis::of_sizes(f64::from(traces().map(Trace::largest_bytes).max().unwrap_or(0))),
            rate: Axis::holding(peak / rate_unit.1, 3),
            rate_unit,
            resent: Axis::holding(resent, 1),
            backoff: Axis::holding(f64::from(backoff), 1),
            window: axis::window(grid.window_ms),
        };
        let wanted = [
            (Strip::Size, true),
            (Strip::Arrived, peak > 0.0),
            (Strip::Resent, resent > 0.0),
            (Strip::Backoff, backoff > 0),
        ];
        let document = &view.set.document;
        let variant = selection.variant.as_ref().filter(|variant| !variant.is_empty());
        let subtitle = match variant {
            Some(variant) => format!("{} · {}", variant_text(variant), document.scenario.description),
            None => document.scenario.description.clone(),
        };
        Some(Self {
            strips: wanted.into_iter().filter(|one| one.1).map(|one| one.0).collect(),
            caption: legend::caption_lines(&caption(&scales, all - panels.len()), WIDTH - 40.0),
            title: format!("{}: packet sizes over time{}", document.scenario.name, selection.of_pattern()),
            panels,
            scales,
            columns,
            plot_width,
            subtitle,
        })
    }

    fn draw(&self, view: &View, height: f64) -> (Svg, f64) {
        let mut svg = Svg::new(WIDTH, height, &self.title, &self.caption.join(" "));
        let mut y = legend::heading(&mut svg, 20.0, WIDTH - 40.0, &self.title, &self.subtitle);
        y += legend::draw(&mut svg, (20.0, y), WIDTH - 40.0, &self.legend(view)) + 6.0;
        let rows: Vec<&[Panel]> = self.panels.chunks(self.columns).collect();
        for (index, row) in rows.iter().enumerate() {
            let above = row.iter().map(|panel| self.above(panel)).fold(0.0, f64::max);
            for (column, panel) in row.iter().enumerate() {
                let x = LEFT + column as f64 * (self.plot_width + COLUMN_GAP + RIGHT);
                let under = rows.get(index + 1).and_then(|next| next.get(column)).is_some();
                self.draw_panel(&mut svg, view, panel, (x, y, above), !under);
            }
            y += above + panel::height(&self.strips) + BELOW;
        }
        let style = TextStyle::new(10.5, MUTED).anchored(Anchor::Middle);
        let text = format!("time since the first byte of data, {}", self.scales.time.unit.0);
        svg.text((WIDTH / 2.0, y + 14.0), style, &text);
        y += 30.0;
        legend::rule(&mut svg, 20.0, y, WIDTH - 40.0);
        y += 20.0 + legend::caption(&mut svg, (20.0, y + 20.0), &self.caption);
        (svg, y)
    }

    /// What stands above a panel's plots: its title, remarks, and the labels of events.
    fn above(&self, panel: &Panel) -> f64 {
        TITLE_HEIGHT + panel.remarks.len() as f64 * REMARK + self.events_height(panel)
    }

    fn events_height(&self, panel: &Panel) -> f64 {
        let plot = Area { x: LEFT, y: 0.0, width: self.plot_width, height: 1.0 };
        event::rows(&panel.happenings, plot, &self.scales.time).1 as f64 * event::ROW
    }

    fn draw_panel(
        &self,
        svg: &mut Svg,
        view: &View,
        panel: &Panel,
        (x, top, above): (f64, f64, f64),
        last: bool,
    ) {
        let y = top + above;
        let room = self.plot_width + RIGHT;
        let name = lettering::fitted(&panel.name, 13.0 * 1.12, room);
        svg.text((x, top + 14.0), TextStyle::new(13.0, INK).bold(), &name);
        let at = lettering::width(&name, 13.0 * 1.12) + 8.0;
        let facts = lettering::fitted(&panel.facts, 11.0, room - at);
        svg.text((x + at, top + 14.0), TextStyle::new(11.0, MUTED), &facts);
        for (index, remark) in panel.remarks.iter().enumerate() {
            let remark = lettering::fitted(remark, 10.5, room);
            let at = (x, top + 14.0 + (index + 1) as f64 * REMARK);
            svg.text(at, TextStyle::new(10.5, ALARM), &remark);
        }
        let plot = Area { x, y, width: self.plot_width, height: panel::height(&self.strips) };
        panel::draw(svg, &panel.trace, plot, &self.strips, &self.scales, (&view.paths, last));
        let whole = Area { y: y + panel::CAP, height: plot.height - panel::CAP, ..plot };
        event::draw(svg, &panel.happenings, whole, self.events_height(panel) + panel::CAP, &self.scales.time);
    }

    fn legend(&self, view: &View) -> Vec<(Mark, String)> {
        let shown =
            |name: &str| self.panels.iter().flat_map(|panel| &panel.trace.paths).any(|one| one.name == name);
        let names = view.paths.names().iter().filter(|name| shown(name));
        let mut entries: Vec<(Mark, String)> =
            names.map(|name| (Mark::Fill(view.paths.colour(name)), name.clone())).collect();
        entries.push((Mark::Line(Stroke::solid(MUTED, 1.8)), "  MSS in force".to_owned()));
        entries.push((Mark::Line(panel::band(MUTED)), "  path MTU in force".to_owned()));
        if self.panels.iter().any(|panel| !panel.happenings.is_empty()) {
            entries.push((Mark::Event, "event".to_owned()));
        }
        entries
    }
}

fn caption(scales: &Scales, left_out: usize) -> Vec<String> {
    let mut sentences = vec![format!(
        "MSS and path MTU: by the word of the sending end's transport (tcp, mptcp: tcpi_snd_mss and tcpi_pmtu of the \
         subflow; quic, mpquic: the largest UDP payload in force), as steps between samples; the number at the right is \
         the last MSS. Arrived (payload, at the receiving end) and sent again: per {}. tcp and mptcp count what is received in \
         order, quic and mpquic what was read from the socket: data that waited for a lost packet, or for the machine, counts \
         in one window, which then holds more than the link carries in it. Back-off: steps of the retransmission timer. Paths at \
         the same height are drawn side by side. Each panel is one run, the one of median goodput.",
        scales.window
    )];
    if left_out > 0 {
        sentences.push(format!("{} not shown.", counted(left_out as u32, "more label")));
    }
    vec![sentences.join(" ")]
}
