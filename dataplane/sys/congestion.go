package sys

// UnpacedCongestion finds a congestion control that does not pace: cubic, else
// reno, which every kernel has. Pacing timers on links without a queue, such as
// those within one machine, halve the rate and double the CPU.
func UnpacedCongestion() (string, error) {
	var f FD
	if err := Socket(&f, IPv4); err != nil {
		return "", err
	}
	defer f.Close()
	err := SetCongestion(&f, "cubic")
	if err == nil {
		return "cubic", nil
	}
	if SetCongestion(&f, "reno") == nil {
		return "reno", nil
	}
	return "", err
}
