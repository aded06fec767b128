"""How kept values are coded: quantised on the device, compressed on the host."""
