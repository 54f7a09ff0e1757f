//! The meaning of the figures and their sources.

use super::shell::{Answer, Shell};
use crate::chart::LEAST_AGENTS;
use crate::viewer::View;
use maud::html;

pub(super) async fn page(view: View) -> Answer {
    let prefix = view.prefix;
    let content = html! {
        h1 { "About" }
        p.lead { "Agents on many hosts measure TCP, Multipath TCP, QUIC and Multipath QUIC side by side, and submit their \
                  results to this collector." }
        section {
            h2 { "What the figures mean" }
            dl {
                dt { "Gain" } dd { "Goodput of Multipath TCP ÷ goodput of TCP on the best single path, or of Multipath \
                                    QUIC ÷ QUIC, in the same result, pattern and variant. Only results count in which each \
                                    path was measured alone and several paths carried data: a connection that fell back is \
                                    not multipath." }
                dt { "Goodput" } dd { "Bytes delivered to the receiving application per second." }
                dt { "Stall" } dd { "The longest time without a byte for the receiving application while the sender has \
                                     data outstanding." }
                dt { "Flow completion time (FCT)" } dd { "From the opening of the connection to the last verified byte of a \
                                                          bulk transfer. It includes the handshake." }
                dt { "Maximum delay" } dd { "The largest delay of a message of the interactive pattern in a run, from the \
                                             moment it was due to its acknowledgement; a message that was never \
                                             acknowledged counts with the time to the end of its run." }
                dt { "Delay under load" } dd { "How much longer UDP datagrams on a path take while the transport sends at full \
                                               rate than while it is idle, as difference of 95th percentiles." }
                dt { "RPM" } dd { "Round trips per minute under load, from the delays of requests on the loaded connection and on \
                                 a new one (draft-ietf-ippm-responsiveness-08)." }
                dt { "Handover duration" } dd { "From the first data on the second path to the last activity on the first one; \
                                        negative if the first path had stopped before." }
            }
        }
        section {
            h2 { "How they are computed" }
            p { "A result counts with the median of its valid runs. Distributions are of logarithmic buckets that are at \
                 most 1.6 % wide. Days are in UTC." }
            p { "Everybody sees public results in the anonymous form. The name of an operator or a server, and a group by \
                 them, are shown only if at least " (LEAST_AGENTS) " agents have results with it." }
            p { "The figures of mobile runs and of IPv4 and IPv6 follow Q. De Coninck and O. Bonaventure, \
                 MultipathTester: Comparing MPTCP and MPQUIC in Mobile Environments (2019)." }
        }
        section {
            h2 { "Data" }
            p { "Every chart is also a file: " a href=(format!("{prefix}/v1/charts")) { "list of charts" }
                ". Newest results: " a href=(format!("{prefix}/v1/results")) { "JSON" } ", "
                a href=(format!("{prefix}/v1/results.csv")) { "CSV" } ", "
                a href=(format!("{prefix}/v1/results.parquet")) { "Parquet" } ". "
                a href="/v1/privacy" { "Privacy" } "." }
        }
    };
    Ok(Shell::new(view, "About").with_path("/about").page(&content))
}
