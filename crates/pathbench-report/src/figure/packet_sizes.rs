//! The lengths of the packets that crossed a path's links, as histograms: at the sending host, and behind the hop
//! with the smallest MTU.

use super::selection::{Selection, left_out, paragraph};
use crate::carriage::{self, Carriage, Stage};
use crate::chart::{Chart, Column, Facet, Frame, Mark, Scale, Strip};
use crate::palette::{Colour, MUTED};
use crate::quantity::{bytes, counted, percent};
use crate::view::View;
use pathbench_record::direction::Direction;
use pathbench_record::document::{RunLink, RunRecord};
use std::collections::BTreeMap;

const MOST_ROWS: usize = 24;
const PLOT_HEIGHT: f64 = 72.0;
const BAR: f64 = 5.0;

struct Row<'a> {
    name: String,
    run: &'a str,
    carriage: Carriage<'a>,
    missed: u64,
}

pub(crate) fn packet_sizes_of(view: &View, selection: &Selection) -> Option<Chart> {
    let mut rows: Vec<Row> = Vec::new();
    for (group, run) in selection.runs(view) {
        let name = selection.name(group);
        rows.extend(carriage::carriages(view, run).into_iter().map(|carriage| {
            let direction = if carriage.direction == Direction::Download { ", download" } else { "" };
            Row {
                name: format!("{name} · {}{direction}", carriage.path),
                run: &run.id,
                missed: missed(run, &carriage),
                carriage,
            }
        }));
    }
    rows.retain(|row| row.carriage.stages().any(|stage| stage.packets() > 0));
    rows.first()?;
    let more = rows.len().saturating_sub(MOST_ROWS);
    rows.truncate(MOST_ROWS);
    let stages = || rows.iter().flat_map(|row| row.carriage.stages());
    let longest = stages().filter_map(|stage| stage.sizes.keys().next_back().copied()).max();
    let most = stages().flat_map(|stage| stage.sizes.values().copied()).max();
    let (lengths, counts) = (Scale::lengths(longest.unwrap_or(0)), Scale::counts(most.unwrap_or(0)));
    let hops = rows.iter().any(|row| row.carriage.passed.is_some());
    let frame = Frame { shared_y: true, ..Frame::of_columns(if hops { 2 } else { 1 }) };
    let facet = |row: &Row, stage: Option<Stage>, otherwise: &str, is_first: bool| {
        let colour = view.paths.colour(row.carriage.path);
        let sizes =
            stage.into_iter().flat_map(|stage| stage.sizes).map(|(length, packets)| (*length, *packets));
        let empty = if stage.is_none() { otherwise } else { "no packet" };
        let strip = histogram(sizes, (&lengths, &counts, frame.plot_width()), colour, empty);
        let title = if is_first { row.name.clone() } else { String::new() };
        Facet {
            facts: if is_first { vec![row.run.to_owned()] } else { Vec::new() },
            remarks: stage.map(|stage| (MUTED, numbers(&stage))).into_iter().collect(),
            ..Facet::new(title, lengths.clone(), vec![strip])
        }
    };
    let of_row = |row: &Row| {
        let sent = facet(row, row.carriage.sent, "not counted at the sending host", true);
        let passed = hops.then(|| facet(row, row.carriage.passed, "the path has no hop of its own", false));
        [Some(sent), passed].into_iter().flatten()
    };
    let headings = ["packets at the sending host", "packets behind the hop"].map(str::to_owned);
    let missed = rows.iter().map(|row| row.missed).fold(0, u64::saturating_add);
    Some(Chart {
        headings: if hops { headings.into() } else { Vec::new() },
        facets: rows.iter().flat_map(of_row).collect(),
        frame,
        shared_x: Some("length of the IP packet, bytes (logarithmic)".to_owned()),
        caption: caption(missed, more),
        ..selection.chart(view, "packets on the wire")
    })
}

fn missed(run: &RunRecord, carriage: &Carriage) -> u64 {
    let is_shown = |link: &&RunLink| carriage.stages().any(|stage| stage.link == link.name);
    let links = run.links.iter().filter(is_shown);
    let missed = links.filter_map(|link| link.packet_sizes.as_ref()).map(|sizes| sizes.missed_packets);
    missed.fold(0, u64::saturating_add)
}

/// Packets and bytes, and the lengths with most of the bytes: `wlan (MTU 9000): 3830 packets, 34.3 MB; 9000: 98 %`.
fn numbers(stage: &Stage) -> String {
    let packets = stage.packets();
    if packets == 0 {
        return format!("{}: no packet", stage.link);
    }
    let mtu = stage.mtu_bytes.map_or(String::new(), |bytes| format!(" (MTU {bytes})"));
    let counted = counted(packets, "packet");
    let parts = stage.by_bytes().into_iter().take(3).enumerate();
    let parts = parts.filter(|(index, (_, part))| *index == 0 || *part >= 0.005);
    let parts: Vec<String> = parts.map(|(_, (size, part))| format!("{size}: {}", percent(part))).collect();
    format!("{}{mtu}: {counted}, {}; {}", stage.link, bytes(stage.bytes()), parts.join(", "))
}

/// Bars of packets by their length, or the text `empty`.
pub(super) fn histogram(
    sizes: impl Iterator<Item = (u32, u64)>,
    (lengths, counts, plot_width): (&Scale, &Scale, f64),
    colour: Colour,
    empty: &str,
) -> Strip {
    let columns = columns(sizes, lengths, plot_width);
    let empty = columns.is_empty().then(|| empty.to_owned());
    let marks = vec![Mark::Columns { columns, width: BAR, colour }];
    Strip { empty, ..Strip::new(PLOT_HEIGHT, counts.clone(), marks) }
}

/// Lengths within a bar's width share one bar.
fn columns(sizes: impl Iterator<Item = (u32, u64)>, lengths: &Scale, plot_width: f64) -> Vec<Column> {
    #[derive(Default)]
    struct Bar {
        packets: u64,
        bytes: f64,
        length: u32,
        most: f64,
        lengths: usize,
    }
    let mut bars: BTreeMap<i64, Bar> = BTreeMap::new();
    for (length, packets) in sizes.filter(|(_, packets)| *packets > 0) {
        let bytes = f64::from(length) * packets as f64;
        let slot = (lengths.part(f64::from(length)) * plot_width / (BAR + 1.0)).floor() as i64;
        let bar = bars.entry(slot).or_default();
        bar.packets = bar.packets.saturating_add(packets);
        bar.bytes += bytes;
        bar.lengths += 1;
        if bytes >= bar.most {
            (bar.most, bar.length) = (bytes, length);
        }
    }
    let column = |bar: Bar| {
        let packets = counted(bar.packets, "packet");
        let tooltip = match bar.lengths {
            1 => format!("{packets} of {} bytes", bar.length),
            many => format!("{packets} of {many} lengths about {} bytes", bar.length),
        };
        let (x, y) = (f64::from(bar.length), bar.packets as f64);
        Column { x, y, weight: bar.bytes, label: bar.length.to_string(), tooltip }
    };
    bars.into_values().map(column).collect()
}

fn caption(missed: u64, more: usize) -> Vec<String> {
    let text = "Lengths of IP packets, headers included, counted on the link and not by the kernel that sent them; GSO \
                packets count as the segments they become. Height: packets of this length (logarithmic). Percentages: \
                part of the bytes in packets of a length. Directions that carried acknowledgements only are left out. \
                Each row is one run, the one of median goodput.";
    let packets = counted(missed, "packet");
    let missing = format!("{packets} crossed and could not be counted, since the machine was too busy.");
    vec![paragraph(&[text, if missed > 0 { &missing } else { "" }, &left_out(more, "row")])]
}
