"""Marvel in other people's frameworks: one small module each, which imports its framework where it is used."""
