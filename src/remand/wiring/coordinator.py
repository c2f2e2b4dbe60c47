"""The coordinator of an open ledger, the sockets of a scheduler's agents, and the user's commands that are asked about rejections."""

from __future__ import annotations

from remand.adapters.coordinator.agent_socket import (
    AgentSocketListener,
    CommandProcesses,
    open_agent_sockets,
    read_call,
)
from remand.adapters.coordinator.protocol import pack_call
from remand.adapters.coordinator.remote_ledger import ask_status
from remand.adapters.coordinator.server import CommandLineCall, ConsultationProcesses, Coordinator
from remand.adapters.git.location import LedgerLocation, read_ref
from remand.adapters.server import openid
from remand.adapters.system.background_runs import BackgroundRuns
from remand.adapters.system.executor import UserCommands
from remand.adapters.system.folders import require_socket_folder
from remand.app.director_commands import DirectorCommands
from remand.app.scheduler.ports import CallHandler
from remand.app.tokens import IdentityProvider
from remand.config import inherited_environment
from remand.config.services import OpenIdSettings
from remand.wiring.after_call import after_call
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import ledger_id

__all__ = ["BackgroundRuns", "CommandProcesses", "ask_status", "pack_call", "read_call", "read_ref"]


def make_consultants(opened: OpenLedger, *, is_users_own: bool) -> DirectorCommands:
    """Adviser and director of an open ledger, as its policy names them."""
    commands = UserCommands(opened.place.root, is_users_own=is_users_own)
    return DirectorCommands(opened.ledger, commands, opened.settings.rules().policy)


def make_coordinator(opened: OpenLedger, call: CommandLineCall, max_idle_seconds: float = 0.0) -> Coordinator:
    """A coordinator that listens on the ledger's socket, permanently or until it has been idle for this long."""
    require_socket_folder()
    opened.store.stay()
    root, rules = opened.place.root, opened.settings.rules
    consultations = ConsultationProcesses(
        root, opened.process_environment, lambda: rules().policy.has_consultants
    )
    return Coordinator(
        opened.ledger,
        opened.folders.socket,
        call,
        consultations.start,
        lambda: after_call(opened.place, opened).run(),
        max_idle_seconds=max_idle_seconds,
    )


def make_identity_provider(settings: OpenIdSettings) -> IdentityProvider:
    """The provider that identifies people, if the base names one."""
    secret = inherited_environment().get("REMAND_OIDC_SECRET", "")
    return openid.OpenIdProvider(settings.issuer, settings.client_id, secret)


def make_agent_sockets(place: LedgerLocation, handler: CallHandler) -> AgentSocketListener:
    """Agent sockets in the ledger's own folder."""
    return open_agent_sockets(require_socket_folder(), ledger_id(place), handler)
