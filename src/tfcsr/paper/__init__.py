"""The paper: its tables and figures as data, the runs they need, the verdicts, the audit."""
