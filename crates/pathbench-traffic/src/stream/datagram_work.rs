//! The state of the pattern `datagrams` at one end, shared by its two threads.

use super::plan::TestPlan;
use crate::datagram::{FlowSlot, UdpFlows};
use crate::flow::{FlowReceiver, FlowSender, ReceiverPlan};
use crate::meter::Meter;
use pathbench_record::datagram::{DatagramLog, DatagramsParameters};
use pathbench_record::transport::Transport;
use pathbench_transport::{QuicDatagrams, lock};
use std::sync::{Arc, Mutex, OnceLock};

/// How the datagrams of a test travel at this end.
#[derive(Debug)]
pub(crate) enum DatagramCarrier {
    Quic(QuicDatagrams),
    Client(UdpFlows),
    Server(FlowSlot),
}

pub(crate) struct DatagramWork {
    pub(super) parameters: DatagramsParameters,
    pub(super) sender: Option<Mutex<FlowSender>>,
    pub(crate) receiver: Option<Arc<Mutex<FlowReceiver>>>,
    pub(crate) carrier: OnceLock<DatagramCarrier>,
}

impl DatagramWork {
    pub(super) fn new(plan: &TestPlan, parameters: &DatagramsParameters) -> Self {
        let meter = || Meter::new(plan.started, plan.patience);
        let is_flow_per_path = plan.transport == Transport::Udp;
        let flows = if is_flow_per_path { parameters.paths } else { 1 };
        let sender = parameters
            .sends(plan.sends_as())
            .then(|| Mutex::new(FlowSender::new(parameters.clone(), flows, plan.ceiling_bytes, meter())));
        let receiver = parameters.sends(plan.receives_as()).then(|| {
            let plan = ReceiverPlan { parameters: parameters.clone(), is_flow_per_path };
            Arc::new(Mutex::new(FlowReceiver::new(plan, meter())))
        });
        Self { parameters: parameters.clone(), sender, receiver, carrier: OnceLock::new() }
    }

    pub(super) fn log(&self) -> DatagramLog {
        let mut log = DatagramLog::default();
        if let Some(sender) = &self.sender {
            let sender = lock(sender);
            log.sent.clone_from(&sender.log);
            log.unsent = sender.unsent();
        }
        if let Some(receiver) = &self.receiver {
            let receiver = lock(receiver);
            log.received.clone_from(&receiver.log);
            (log.omitted, log.foreign) = (receiver.omitted, receiver.foreign);
        }
        match self.carrier.get() {
            Some(DatagramCarrier::Client(flows)) => log.paths = flows.local_addresses(),
            Some(DatagramCarrier::Quic(quic)) => log.omitted += quic.omitted(),
            _ => {}
        }
        log
    }
}
