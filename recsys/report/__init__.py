"""Run folders, the privacy ledger and what a run prints."""
