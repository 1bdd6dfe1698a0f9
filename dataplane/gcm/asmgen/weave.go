package main

// A stream is a run of instructions, each a call that emits it.
type stream []func()

// emit emits streams one after the other.
func emit(streams ...stream) {
	for _, s := range streams {
		for _, f := range s {
			f()
		}
	}
}

// weave emits long with other spread between its instructions, in the order
// that each has. The CPU would find the parallelism of two streams one after
// the other only as far as its window reaches, which is less than one group.
//
// The first quarters of long, as many as alone says, have no company: what
// other waits for, the end of the group before, has not come out of the CPU
// yet, and would only fill its queues. Measured on Zen 4 at 16 KiB.
func weave(long, other stream, alone int) {
	first := len(long) * alone / 4
	done := 0
	for i, f := range long {
		f()
		for done < len(other) && done*(len(long)-first) < (i+1-first)*len(other) {
			other[done]()
			done++
		}
	}
}
