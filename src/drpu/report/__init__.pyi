from .page import render_report as render_report
from .page import write_report as write_report

__all__: list[str]
