package metric

// A Desc is the exported name and help text of a counter or gauge.
type Desc struct{ Name, Help string }

// Describe gives the name under which counter c is scraped.
func (c Counter) Describe() Desc {
	return [NumCounters]Desc{
		Accepted:          {"sluice_accepted_total", "Connections accepted."},
		AcceptErrors:      {"sluice_accept_errors_total", "Accept calls that failed."},
		MovedIn:           {"sluice_flows_moved_total", "Flows handed from a pod's home loop to another loop."},
		StaleEvents:       {"sluice_loop_stale_events_total", "Events for a registration that was gone."},
		Turns:             {"sluice_loop_turns_total", "Turns of the event loops."},
		Sleeps:            {"sluice_loop_sleeps_total", "Turns that waited for an event."},
		Promoted:          {"sluice_relay_promoted_total", "Directions promoted to splice."},
		Demoted:           {"sluice_relay_demoted_total", "Directions put back from splice to copying."},
		PipesExhausted:    {"sluice_relay_pipes_exhausted_total", "Promotions refused because no pipe was left."},
		CopiedBytes:       {"sluice_relay_copied_bytes_total", "Bytes moved through user space."},
		SplicedBytes:      {"sluice_relay_spliced_bytes_total", "Bytes moved by splice."},
		UpBytes:           {"sluice_up_bytes_total", "Bytes from clients to servers."},
		DownBytes:         {"sluice_down_bytes_total", "Bytes from servers to clients."},
		Dials:             {"sluice_dials_total", "Connects started."},
		DialSilent:        {"sluice_dial_silent_total", "Connects to an application that were silent and tried another source port."},
		SourcePortSkips:   {"sluice_source_port_skips_total", "Source ports passed over because they were taken."},
		SourcePortSpill:   {"sluice_source_port_spill_total", "Source ports taken outside the preferred range and parity."},
		Unspoofable:       {"sluice_unspoofable_total", "Flows dialled without the client's address because it is link-local."},
		UnboundSource:     {"sluice_unbound_source_total", "Outward flows whose client address is not one of the pod's."},
		SocketsMade:       {"sluice_sockets_made_total", "Sockets made inside pods."},
		LogDropped:        {"sluice_log_dropped_total", "Access-log records dropped because the ring was full."},
		Panics:            {"sluice_panics_total", "Faults in the proxy that ended one flow."},
		Frozen:            {"sluice_frozen_total", "Flows written down to be handed over."},
		Thawed:            {"sluice_thawed_total", "Flows taken up from a written state."},
		Tunnels:           {"sluice_tunnels_total", "HBONE tunnels begun, in both roles."},
		Handshakes:        {"sluice_handshakes_total", "TLS handshakes of tunnels that succeeded."},
		HandshakeFailures: {"sluice_handshake_failures_total", "TLS handshakes of tunnels that failed."},
		TunnelFaults:      {"sluice_tunnel_faults_total", "Tunnels ended because the peer broke the protocol."},
		StreamFaults:      {"sluice_stream_faults_total", "Streams ended because the peer broke the protocol."},
		Streams:           {"sluice_streams_opened_total", "CONNECT streams opened towards peers."},
		StreamsRetried:    {"sluice_streams_retried_total", "CONNECT streams opened again because the peer did nothing for them."},
		RecordsSealed:     {"sluice_records_sealed_total", "TLS records sealed."},
		ThawRefused:       {"sluice_thaw_refused_total", "Flows reset because their written state could not be taken up."},
	}[c]
}

// Describe gives the name under which gauge g is scraped.
func (g Gauge) Describe() Desc {
	return [NumGauges]Desc{
		OpenFlows:   {"sluice_flows_open", "Flows that are open."},
		HeldBytes:   {"sluice_held_bytes", "Bytes taken from one side and not yet taken by the other."},
		HeldBlocks:  {"sluice_held_blocks", "Blocks in use."},
		PipesInUse:  {"sluice_pipes_in_use", "Pipes that hold data."},
		OpenTunnels: {"sluice_tunnels_open", "HBONE tunnels that are open, in both roles."},
		OpenStreams: {"sluice_streams_open", "CONNECT streams that are open, in both roles."},
		SpareSocket: {"sluice_spare_sockets", "Sockets made ahead inside pods."},
	}[g]
}
